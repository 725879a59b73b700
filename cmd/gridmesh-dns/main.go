// Command gridmesh-dns is CoreDNS with the plugin grid, and of the others those
// that an edge node needs.
package main

import (
	"errors"
	"flag"
	"fmt"
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
                                      IPv4 addresses, and the given ones
  gridmesh-dns -version

Exit codes: 0 all is well, 1 failure, 2 wrong flags or commands.

Flags:
`

// word answers a first argument that is no flag: CoreDNS takes none.
func word(arg string) (code int, ends bool) {
	switch {
	case arg == "help":
		flag.CommandLine.SetOutput(os.Stdout)
		flag.Usage()
		return 0, true
	case !strings.HasPrefix(arg, "-"):
		fmt.Fprintf(os.Stderr, "gridmesh-dns: there is no command %q; it has cleanup: gridmesh-dns -help\n", arg)
		return 2, true
	}
	return 0, false
}

// unmeant refuses words behind the flags, and a start without a Corefile: CoreDNS
// would take one of its own, with plugins that are not here.
func unmeant(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; say: gridmesh-dns -conf Corefile", flags.Arg(0))
	}
	for _, name := range []string{"conf", "plugins", "version"} {
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
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "cleanup":
			if len(os.Args) > 2 && slices.Contains([]string{"-h", "-help", "--help"}, os.Args[2]) {
				text, _, _ := strings.Cut(usage, "\nFlags:")
				fmt.Print(text)
				return
			}
			os.Exit(cleanup(os.Args[2:]))
		case "-version", "--version", "-v":
			fmt.Printf("gridmesh-dns %s, CoreDNS %s\n", obs.Version(), coremain.CoreVersion)
			return
		}
	}
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	if len(os.Args) > 1 {
		if code, ends := word(os.Args[1]); ends {
			os.Exit(code)
		}
	}
	flag.Parse()
	if err := unmeant(flag.CommandLine); err != nil {
		fmt.Fprintln(os.Stderr, "gridmesh-dns:", err)
		os.Exit(2)
	}
	run.StillHeap()
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "gridmesh-dns:", err)
		os.Exit(1)
	}
	coremain.Run()
}
