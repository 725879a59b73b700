package testkit

import (
	"reflect"
	"testing"

	"github.com/spf13/cobra"
)

func TestExamplesAreUnderstood(t *testing.T) {
	if got, want := calls("  a x >f && b -c y | d & e"), [][]string{{"a", "x"}, {"b", "-c", "y"}, {"d"}, {"e"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("calls: %q, want %q", got, want)
	}
	program := func() *cobra.Command {
		root, act := &cobra.Command{Use: "x"}, func(*cobra.Command, []string) {}
		sub := &cobra.Command{Use: "sub", Args: cobra.ExactArgs(1), Run: act}
		sub.Flags().String("to", "", "")
		_ = sub.MarkFlagRequired("to")
		root.AddCommand(sub, &cobra.Command{Use: "pass", DisableFlagParsing: true, Run: act})
		return root
	}
	for _, tc := range []struct {
		words []string
		path  string // "" where it is not understood
	}{
		{[]string{"sub", "--to", "a", "b"}, "x sub"},
		{[]string{"pass", "--what", "ever"}, "x pass"},
		{[]string{"sub", "b"}, ""},
		{[]string{"sub", "--to", "a"}, ""},
		{[]string{"sub", "--too", "a", "b"}, ""},
		{[]string{"sbu", "--to", "a", "b"}, ""},
	} {
		if path, err := understood(program(), tc.words); (err == nil) != (tc.path != "") || err == nil && path != tc.path {
			t.Errorf("%q: %q, %v", tc.words, path, err)
		}
	}
	if n := len(doers(program())); n != 2 {
		t.Errorf("%d commands do something, want 2", n)
	}
}
