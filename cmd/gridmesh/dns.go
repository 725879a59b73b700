package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/miekg/dns"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// dnsDoc is the output of dns.
type dnsDoc struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Result  string   `json:"result"`
	Answers []string `json:"answers"`
	Why     string   `json:"why"`

	outside string // what to ask for where a name outside the grid is meant
}

// dnsTypes are the types that may be asked for, as people are told of them.
var dnsTypes = append(slices.Sorted(maps.Keys(answer.Types)), "PTR")

// told are words as people list them: "A, AAAA or PTR".
func told(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func dnsCommand() *cobra.Command {
	in, cfg, zone, namespace := &input{}, answer.Config{Services: true}, "", ""
	cmd := &cobra.Command{
		Use: "dns NAME [TYPE]", Short: "Show what gridmesh-dns of a node answers for the name of a Service or of a grid's pod, and why", Args: cobra.RangeArgs(1, 2),
		Long: `Show what gridmesh-dns of a node answers for the name of a Service or of a grid's pod, and why.

It asks no DNS server: the answer is made of the same state as what view shows. The
result is NOERROR; NXDOMAIN, the name does not exist; ABSENT, no Service has it, and
the cluster's DNS is asked all the same; FOREIGN, the cluster's DNS answers; or UNKNOWN.

TYPE is ` + told(dnsTypes) + `. NAME is whole, or as pods of the namespace of -n say
it: web, db-0.db, web.default, web.default.svc. Of an address, or a name below
in-addr.arpa or ip6.arpa, PTR is asked; of others A.

Exits with 1 where the name does not exist, or where that is not known, for a
last good state lacks the Services that its node did not use.`,
		Example: `  gridmesh dns db-0.db.default.svc.cluster.local --node edge-7
  gridmesh dns web -f ./state --node edge-7
  gridmesh dns db.default SRV -f ./state --node edge-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given(args); err != nil {
				return err
			}
			q, err := parseQuestion(args, zone)
			if err != nil {
				return err
			}
			q.search(namespace)
			w, err := in.world(cmd.Context())
			if err != nil {
				return err
			}
			doc := q.ask(answer.New(cfg).Next(w.view), w.known())
			doc.of(w.snap)
			err = in.doubt(w.about(doc.services(zone), w.snap.Problems), in.print(cmd.OutOrStdout(), doc, func(out io.Writer) error { return dnsTable(out, doc) }))
			if err == nil && !in.lenient {
				err = doc.failed()
			}
			return err
		},
	}
	in.bind(cmd)
	cmd.ValidArgsFunction = first(in.completeServices(dnsName), dnsTypes...)
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", names.DefaultNamespace, "namespace of the pod that asks")
	f.Lookup("lenient").Usage = "exit with 0 where problems are printed, or the name does not exist"
	f.StringVar(&zone, "zone", "cluster.local", "zone of the cluster")
	f.BoolVar(&cfg.Services, "services", true, "answer ClusterIP Services and PTR too, as the node-local DNS does")
	f.BoolVar(&cfg.Strict, "strict", false, "hide the pods of other units")
	f.BoolVar(&cfg.EmptyNXDomain, "empty-nxdomain", false, "a name without endpoints in the unit does not exist")
	in.completeNamespaces()
	return cmd
}

// What became of a question, as it is printed.
const (
	foreign  = "FOREIGN" // others answer
	absent   = "ABSENT"  // there is no such Service; others are asked all the same
	nxdomain = "NXDOMAIN"
	noerror  = "NOERROR"
	unknown  = "UNKNOWN" // it may be of what a part of a state lacks; others are asked
)

var resultNames = map[answer.Result]string{answer.Passed: foreign, answer.NotFound: absent, answer.NXDomain: nxdomain, answer.Found: noerror}

var (
	errNoName  = errors.New("the name does not exist")
	errUnknown = errors.New("whether the name exists is not known, for this state is a part")
)

// of takes back what a part of a state cannot say: gridmesh-dns asks others then.
func (d *dnsDoc) of(snap *topology.Snapshot) {
	const lacks = "a last good state lacks the Services that its node did not use"
	switch {
	case !snap.Partial || len(d.Answers) > 0:
	case d.Result == absent || d.Result == nxdomain:
		d.Result, d.Why = unknown, "in what is known here "+d.Why+"; "+lacks+": others are asked"
	case d.Type == "PTR":
		d.Why += "; " + lacks
	}
}

// failed is why a name has no answer that could be relied on.
func (d *dnsDoc) failed() error {
	err := errNoName
	switch d.Result {
	case unknown:
		err = errUnknown
	case absent, nxdomain:
	default:
		return nil
	}
	return fmt.Errorf("%w: %s%s (--lenient exits with 0)", err, d.Name, d.outside)
}

// question is what is asked for, as people write it.
type question struct {
	name string // relative to "svc" of the zone, or whole where foreign
	// also is where it is looked for first: in the namespace of the pod that asks.
	also string
	open bool       // it may be relative to other domains than svc of the zone
	ip   netip.Addr // of PTR
	kind string     // of dnsTypes
	zone string
	// foreign is why the name is none of the zone's, with what may have been meant.
	foreign string
}

func parseQuestion(args []string, zone string) (q question, err error) {
	q.name, q.zone = strings.ToLower(args[0]), strings.ToLower(strings.TrimSuffix(zone, "."))
	if msgs := validation.IsDNS1123Subdomain(q.zone); len(msgs) > 0 {
		return q, fmt.Errorf("%w: --zone %q is no domain; give the cluster's, as cluster.local", run.ErrUsage, zone)
	}
	address := cmp.Or(dnsutil.ExtractAddressFromReverse(strings.TrimSuffix(q.name, ".")+"."), q.name)
	q.ip, err = netip.ParseAddr(address)
	isAddress := err == nil
	switch {
	case len(args) > 1:
		q.kind = strings.ToUpper(args[1])
	case isAddress:
		q.kind = "PTR"
	default:
		q.kind = "A"
	}
	switch {
	case q.kind == "PTR" && !isAddress:
		return q, fmt.Errorf("%w: %q is no address; give one, as 10.96.0.10, or its name below in-addr.arpa or ip6.arpa", run.ErrUsage, args[0])
	case q.kind == "PTR":
		return q, nil
	case !slices.Contains(dnsTypes, q.kind):
		return q, fmt.Errorf("%w: type %q is not answered; use %s", run.ErrUsage, args[1], told(dnsTypes))
	case isAddress:
		return q, fmt.Errorf("%w: %s is an address; ask for PTR", run.ErrUsage, args[0])
	}
	if _, ok := dns.IsDomainName(q.name); !ok {
		return q, fmt.Errorf("%w: %q is no name; give one, as web.default: no label of it may be empty or longer than 63 bytes", run.ErrUsage, args[0])
	}
	q.relative()
	return q, nil
}

// relative cuts the zone off, and says of a name that is in another one so: of
// one that is written whole, with a dot at its end, and of one that goes on
// after "svc".
func (q *question) relative() {
	whole := strings.HasSuffix(q.name, ".")
	q.name = strings.TrimSuffix(q.name, ".")
	below, inside := strings.CutSuffix(q.name, ".svc."+q.zone)
	if !inside && !whole {
		below, inside = strings.CutSuffix(q.name, ".svc")
		inside = inside && strings.Contains(below, ".") // else svc is the namespace
	}
	at := strings.LastIndex(q.name, ".svc.")
	switch {
	case inside:
		q.name = below
	case at >= 0:
		q.foreign = fmt.Sprintf("is not below svc.%s: others answer; did you mean %s.svc.%s? --zone names another zone", q.zone, q.name[:at], q.zone)
	case whole || q.name == q.zone || strings.HasSuffix(q.name, "."+q.zone):
		q.foreign = fmt.Sprintf("is not below svc.%s: others answer", q.zone)
	default:
		q.open = true
	}
}

// search has a name that is not whole looked for as a pod does, in its own
// namespace first. One label is nowhere else: svc has but namespaces below it.
func (q *question) search(namespace string) {
	switch {
	case !q.open:
	case strings.Contains(q.name, "."):
		q.also = q.name + "." + namespace
	default:
		q.name += "." + namespace
	}
}

// found prefers the name in the pod's namespace where a Service of the state has
// it, whoever answers for that, or is all that is known of it: it is what is asked
// first.
func (q *question) found(x *answer.Index, services []string) answer.Answer {
	a := x.Lookup(q.name, answer.Types[q.kind])
	if q.also == "" {
		return a
	}
	own, preferred := x.Lookup(q.also, answer.Types[q.kind]), false
	switch own.Result {
	case answer.Found:
		preferred = true
	case answer.Passed: // where Services are left to others, it may be of none
		preferred = slices.Contains(services, serviceOf(q.also))
	case answer.NXDomain:
		preferred = a.Result == answer.NotFound
	}
	if !preferred {
		return a
	}
	q.name = q.also
	return own
}

// serviceOf is the Service that a name is of, or below: its last two labels.
func serviceOf(name string) string {
	labels := strings.Split(name, ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}

// ask looks the answer up; services are what people may have meant.
func (q question) ask(x *answer.Index, services []string) *dnsDoc {
	suffix := ".svc." + q.zone
	if q.kind == "PTR" {
		return q.askAddress(x, suffix)
	}
	if q.foreign != "" {
		return &dnsDoc{Name: q.name, Type: q.kind, Result: foreign, Answers: []string{}, Why: q.foreign}
	}
	a := q.found(x, services)
	doc := &dnsDoc{Name: q.name + suffix, Type: q.kind, Result: resultNames[a.Result], Answers: []string{}, Why: x.Explain(q.name, answer.Types[q.kind])}
	for _, ip := range a.Addrs {
		doc.Answers = append(doc.Answers, ip.String())
	}
	for _, t := range a.SRV {
		doc.Answers = append(doc.Answers, fmt.Sprintf("%d %s%s", t.Port, t.Name, suffix))
	}
	if a.Result == answer.NotFound {
		if meant := meantService(q.name, services); meant != "" {
			doc.Why += fmt.Sprintf("; did you mean %s%s?", meant, suffix)
		} else if q.open && q.also != "" {
			doc.Why += fmt.Sprintf("; a pod asks for the name outside next: gridmesh dns %s. says who answers there", q.name)
			doc.outside = fmt.Sprintf("; if a name outside the cluster is meant, end it with a dot: gridmesh dns %s.", q.name)
		}
	}
	return doc
}

// meantService is the Service that a name may be meant for, of those of the state, all
// as DNS names them; "" for none.
func meantService(name string, services []string) string {
	service := serviceOf(name)
	if slices.Contains(services, service) { // then it is what is below it that is not there
		return ""
	}
	var keys []string
	for _, s := range services {
		keys = append(keys, swapped(s, ".", "/"))
	}
	slices.Sort(keys)
	return swapped(nearly(swapped(service, ".", "/"), keys), "/", ".")
}

// swapped is "web.default" as "default/web", or the other way round.
func swapped(name, mark, other string) string {
	first, second, two := strings.Cut(name, mark)
	if !two {
		return name
	}
	return second + other + first
}

func (q question) askAddress(x *answer.Index, suffix string) *dnsDoc {
	doc := &dnsDoc{Name: q.ip.String(), Type: "PTR", Result: foreign, Answers: []string{}, Why: "no Service or member of this snapshot has the address: others answer"}
	names, truncated := x.PTR(q.ip)
	for _, name := range names {
		doc.Answers, doc.Result, doc.Why = append(doc.Answers, name+suffix), noerror, "an address of a Service, or of a headless one's endpoint"
	}
	if truncated {
		doc.Why += answer.MoreThanFits
	}
	return doc
}

// services are those that were asked about, as "namespace/name".
func (d *dnsDoc) services(zone string) (list []string) {
	suffix := ".svc." + strings.ToLower(strings.TrimSuffix(zone, "."))
	for _, name := range append(slices.Clone(d.Answers), d.Name) {
		name = name[strings.LastIndex(name, " ")+1:] // of SRV the port is before it
		if below, inside := strings.CutSuffix(name, suffix); inside {
			service, namespace, _ := strings.Cut(serviceOf(below), ".")
			list = append(list, namespace+"/"+service)
		}
	}
	return append(list, "/") // which is none: then what may hide one is left
}

// known are the state's Services, as DNS names them: service.namespace.
func (w *world) known() (list []string) {
	for _, key := range servicesOf(w.snap) {
		list = append(list, dnsName(key))
	}
	return list
}

func dnsName(key topology.ObjectKey) string { return key.Name + "." + key.Namespace }

func dnsTable(out io.Writer, doc *dnsDoc) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", doc.Name, doc.Type, doc.Result, doc.Why)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range doc.Answers {
		fmt.Fprintln(out, " ", a)
	}
	return nil
}
