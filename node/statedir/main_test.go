package statedir

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// lockChild in the environment names a directory that the test binary locks, until
// its input ends.
const lockChild = "STATEDIR_TEST_LOCK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockChild); dir != "" {
		if _, err := Lock(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
