package edge

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// MissingForKubeProxy says why this machine cannot run kube-proxy, which writes
// its rules with nft; nil: it can.
func MissingForKubeProxy() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("kube-proxy needs nft, which is not found (apt-get install nftables)")
	}
	return nil
}

// programs are what every cluster is made of.
var programs = []string{"kube", "envoy", "gridmesh", "gridmesh-agent", "gridmesh-controller", "gridmesh-dns", "lab-worker"}

// MissingPrograms says what this checkout's bin/ lacks for a cluster; nil: nothing.
func MissingPrograms() error {
	root, err := FindRoot()
	if err != nil {
		return err
	}
	return missingIn(filepath.Join(root, "bin"))
}

func missingIn(bin string) error {
	var lacks []string
	for _, name := range programs {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil { // or it cannot be executed
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("%s lacks %s: run make build kube envoy in %s", bin, strings.Join(lacks, ", "), filepath.Dir(bin))
}
