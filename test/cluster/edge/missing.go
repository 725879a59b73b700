package edge

import (
	"errors"
	"os/exec"
)

// MissingForKubeProxy says why this machine cannot run kube-proxy, which writes
// its rules with nft; nil: it can.
func MissingForKubeProxy() error {
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("kube-proxy needs nft, which is not found (apt-get install nftables)")
	}
	return nil
}
