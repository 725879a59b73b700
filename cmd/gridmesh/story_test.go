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
	testscript.Run(t, testscript.Params{Dir: "testdata/story", UpdateScripts: *update, Setup: func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // or each of a hundred commands takes a second
		return nil
	}})
}
