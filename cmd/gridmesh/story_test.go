package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the stories' expected output")

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"gridmesh": main}) }

// Each story is manifests in, a table out: read them to learn a feature.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/story", UpdateScripts: *update})
}
