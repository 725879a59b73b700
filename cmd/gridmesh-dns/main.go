// Command gridmesh-dns is CoreDNS with the plugin grid, and of the others those
// that an edge node needs.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/timeouts"

	_ "github.com/gridmesh/gridmesh/dnsplugin"
	_ "github.com/gridmesh/gridmesh/dnsplugin/live"
	_ "github.com/gridmesh/gridmesh/dnsplugin/nodelocal"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

// directives is the order in which plugins see a request, as CoreDNS has it;
// grid comes right before kubernetes, behind cache and rewrite, but for live.
var directives = []string{
	"nodelocal", "timeouts", "reload", "debug", "bind", "health", "ready", "prometheus", "errors", "log", "acl", "loadbalance", "rewrite", "cache",
	"template", "hosts", "grid", "live", "kubernetes", "loop", "forward",
}

const usage = `gridmesh-dns is CoreDNS with the plugins grid, live and nodelocal.

  gridmesh-dns -conf Corefile
  gridmesh-dns cleanup [ADDRESS...]   take what nodelocal put onto lo away: its
                                      IPv4 addresses, and the given ones;
                                      not while somebody answers there
  gridmesh-dns -version

Exit codes: 0 all is well, 1 failure, 2 wrong flags or commands.

Flags:
`

// help shows what is known of the program, as asked, or says of what nothing is.
func help(flags *flag.FlagSet, topics []string) (code int) {
	switch topic := strings.Join(topics, " "); topic {
	case "":
		fmt.Print(usage)
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
	case "cleanup":
		text, _, _ := strings.Cut(usage, "\nFlags:")
		fmt.Print(text)
	default:
		fmt.Fprintf(os.Stderr, "gridmesh-dns: help knows nothing of %q; see gridmesh-dns -help\n", topic)
		return 2
	}
	return 0
}

// word answers a first argument that is no flag: CoreDNS takes none.
func word(arg string) error {
	if strings.HasPrefix(arg, "-") {
		return nil
	}
	if arg == "completion" { // the other programs have it
		return errors.New("there is no completion: the flags are CoreDNS', and gridmesh-dns -help lists them")
	}
	return fmt.Errorf("there is no command %q; it has cleanup: gridmesh-dns -help", arg)
}

// parse reads the flags, and says what is wrong with one in a line: the package
// flag prints all there are. flag.ErrHelp where help is asked for.
func parse(flags *flag.FlagSet, args []string) error {
	flags.Init("gridmesh-dns", flag.ContinueOnError)
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	defer flags.SetOutput(nil)
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%w; gridmesh-dns -help lists the flags", err)
	}
	return err
}

// unmeant refuses words behind the flags, and a start without a Corefile: CoreDNS
// would take one of its own, with plugins that are not here.
func unmeant(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; say: gridmesh-dns -conf Corefile", flags.Arg(0))
	}
	if f := flags.Lookup("conf"); f != nil && f.Value.String() != f.DefValue {
		if _, err := os.Stat(f.Value.String()); err != nil && f.Value.String() != "stdin" { // which CoreDNS reads
			return fmt.Errorf("the Corefile of -conf: %w", err) // CoreDNS would call it a Caddyfile
		}
		return nil
	}
	for _, name := range []string{"plugins", "version"} {
		if f := flags.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			return nil
		}
	}
	if _, err := os.Stat(caddy.DefaultConfigFile); errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no Corefile here; say: gridmesh-dns -conf Corefile (deploy/dns.yaml has one)")
	}
	return nil
}

func main() {
	args := os.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "cleanup":
			if len(args) > 1 && slices.Contains([]string{"-h", "-help", "--help"}, args[1]) {
				os.Exit(help(flag.CommandLine, args[:1]))
			}
			os.Exit(cleanup(args[1:]))
		case "help":
			os.Exit(help(flag.CommandLine, args[1:]))
		case "-version", "--version", "-v":
			fmt.Printf("gridmesh-dns %s, CoreDNS %s\n", obs.Version(), coremain.CoreVersion)
			return
		}
		if err := word(args[0]); err != nil {
			wrong(err)
		}
	}
	switch err := parse(flag.CommandLine, args); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(help(flag.CommandLine, nil))
	case err != nil:
		wrong(err)
	}
	if err := unmeant(flag.CommandLine); err != nil {
		wrong(err)
	}
	run.StillHeap()
	run.KeepToLimit()
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "gridmesh-dns:", err)
		os.Exit(1)
	}
	coremain.Run()
}

// wrong ends the program for a mistake in its arguments.
func wrong(err error) {
	fmt.Fprintln(os.Stderr, "gridmesh-dns:", err)
	os.Exit(2)
}
