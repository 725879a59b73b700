package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// Want is where a node is to go.
type Want struct {
	Back     bool   // to kube-proxy
	Datapath string // of gridmesh: auto or kernel
}

// Plan is what is to be done.
type Plan struct {
	State   string       `json:"state"`             // of the node, in words
	Differs []Difference `json:"differs,omitempty"` // between what kube-proxy was told and gridmesh
	Notes   []string     `json:"notes,omitempty"`
	Blocked []string     `json:"blocked,omitempty"` // why no step is to be done before, and the cure
	Steps   []Step       `json:"steps,omitempty"`   // in order; none: the node is there
}

// Difference is something that kube-proxy was told, and what becomes of it.
type Difference struct {
	What     string `json:"what"`
	Gridmesh string `json:"gridmesh"`
}

// Do is what is done about a step.
type Do string

// Who does a step.
const (
	Yours Do = ""     // a person: it starts or stops a program
	Wait  Do = "wait" // it comes by itself
)

// Step is one of a plan.
type Step struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"` // of who does it by hand
	Do      Do     `json:"do,omitempty"`
}

// Of decides what is to be done on a node, by what was seen there.
func Of(s Seen, want Want) Plan {
	p := Plan{State: s.state()}
	if want.Back {
		p.back(s)
	} else {
		p.there(s, want)
	}
	return p
}

// state says what is on the node, in a line.
func (s Seen) state() string {
	theirs := "no rules of kube-proxy"
	if mode := s.Rules.Mode(); mode != "" {
		theirs = fmt.Sprintf("rules of kube-proxy (%s: %s)", mode, s.Rules.Text())
	}
	if s.Alive != "" {
		theirs += ", which runs (" + s.Alive + ")"
	} else if !s.Rules.None() {
		theirs += ", of which there is no other sign"
	}
	ours := "gridmesh serves nothing"
	if len(s.Serves) > 0 {
		ours = "gridmesh's rules are in force"
	}
	switch {
	case s.Agent == nil:
		ours += ", and no agent answers at " + s.Asked + " (--status-socket)"
	case s.degraded():
		ours += ", and its agent runs; gridmesh-agent status says what it lacks"
	default:
		ours += ", and its agent runs"
	}
	if s.Installed && len(s.Serves) == 0 && s.Agent == nil {
		ours += "; rules of one that never served are there"
	}
	return theirs + "; " + ours
}

// Commands of steps, once for each way in which programs run on nodes.
const (
	startAgent = "start gridmesh-agent with --datapath=%s%s, and Envoy (with deploy/: kubectl label node NODE gridmesh.io/node=serve)"
	cleanProxy = "kube-proxy --cleanup"
	stopProxy  = "delete its pod for good by its DaemonSet's affinity or nodeSelector, or stop its service"
	startProxy = "start kube-proxy (with deploy/: kubectl label node NODE gridmesh.io/node-)"
)

// stopsProxy begins the step that is over when kube-proxy is gone.
const stopsProxy = "stop kube-proxy on this node"

// there is the way to gridmesh.
func (p *Plan) there(s Seen, want Want) {
	p.Differs = differences(s.Proxy)
	if s.Unread != "" && s.Alive != "" {
		p.Notes = append(p.Notes, "what kube-proxy was told is not known: "+s.Unread)
	}
	if s.Rules.IPVS {
		p.Blocked = append(p.Blocked, "kube-proxy (ipvs) owns the ClusterIPs as addresses of this node, and no rule comes before that: give kube-proxy mode: nftables, restart it, and it removes what it had of ipvs; or stop it and run: "+cleanProxy)
	}
	if s.ForwardDrops && len(s.Rules.Iptables)+len(s.Rules.Old) > 0 {
		p.Notes = append(p.Notes, "iptables drops by default what this node forwards, and a chain of kube-proxy's (KUBE-FORWARD) lets pass what it masquerades: see that others let pass what goes to and from pods (iptables -S FORWARD)")
	}
	if want.Datapath == "auto" && (s.Agent == nil || s.Agent.BesideKubeProxy) && !s.Rules.None() {
		p.Notes = append(p.Notes, "until kube-proxy's rules are gone, and half a minute longer, the kernel serves all; then Envoy has TCP of Services with topologyKeys")
	}
	alone := s.Alive == "" && s.Rules.None()
	switch {
	case s.Agent != nil:
	case alone:
		p.step(Yours, fmt.Sprintf(startAgent, want.Datapath, ""), "start the agent")
	default:
		p.step(Yours, fmt.Sprintf(startAgent, want.Datapath, " --take-over=kube-proxy"), "start the agent beside kube-proxy")
	}
	envoyAlone := s.Agent != nil && s.Agent.Datapath == ""
	if envoyAlone && alone {
		p.Notes = append(p.Notes, "the agent has --datapath envoy: nobody serves node ports, load balancers' and external addresses, and UDP without topologyKeys; with --datapath="+want.Datapath+" the kernel does")
	}
	if envoyAlone && !alone {
		p.step(Yours, "give gridmesh-agent --datapath="+want.Datapath+" --take-over=kube-proxy, and restart it", "have the agent serve all that kube-proxy does: it has --datapath envoy")
	} else if why := unserved(s.Agent); why != "" {
		p.step(Wait, "gridmesh-agent status", "wait until gridmesh serves on this node: "+why)
	}
	switch s.Alive {
	case "":
	case report.ByRulesAlone:
		p.step(Yours, stopProxy+", and then restart gridmesh-agent, or run "+cleanProxy, "stop kube-proxy on this node for good, and have the agent look anew, for nothing shows it when that is gone ("+s.Alive+")")
	default:
		p.step(Yours, stopProxy, stopsProxy+" ("+s.Alive+")")
	}
	switch {
	case s.Rules.None():
		p.envoy(s.Agent, s.At)
	case s.Rules.Stays():
		p.step(Yours, cleanProxy, "remove what it leaves ("+s.Rules.Text()+"), which no program of gridmesh can")
	case s.Agent != nil && !s.Agent.TakeOver:
		p.step(Yours, "give gridmesh-agent --take-over=kube-proxy, and restart it; or, where kube-proxy is gone and gridmesh serves, "+cleanProxy, "have what kube-proxy leaves removed ("+s.Rules.Text()+"): the agent does not look at it")
	default:
		p.step(Wait, "gridmesh-agent status", "wait until the agent has removed what it leaves: "+s.Rules.Text())
	}
}

// envoy is what is waited for when kube-proxy's rules are gone, where Envoy has a part.
func (p *Plan) envoy(r *report.Report, now time.Time) {
	if r == nil || r.Source != report.Live || !r.EnvoyHasPart() {
		return
	}
	switch why := r.InsteadText(now); {
	case len(r.Envoys) == 0 && !r.BesideKubeProxy:
		p.step(Wait, "gridmesh-agent status; start Envoy where it does not run", "wait until an Envoy is connected")
	case why != "":
		p.step(Wait, "gridmesh-agent status", "wait until Envoy gets its part: "+why)
	}
}

// unserved says why gridmesh does not serve as it is to; "" where it does.
func unserved(r *report.Report) string {
	switch {
	case r == nil:
		return "no agent runs yet"
	case r.Source != report.Live && r.APIServer != nil && r.APIServer.Error != "":
		return fmt.Sprintf("it has not heard of all Services (%s)", r.APIServer.Error)
	case r.Source != report.Live:
		return "it has not heard of all Services"
	case r.Error != "":
		return r.Error
	}
	return ""
}

// back is the way to kube-proxy.
func (p *Plan) back(s Seen) {
	lacks := slices.DeleteFunc(slices.Clone(s.Serves), func(f string) bool { return slices.Contains(s.Theirs, f) })
	if len(s.Serves) == 0 && s.Agent == nil {
		p.neverServed(s)
		return
	}
	p.Notes = append(p.Notes, "kube-proxy ignores topologyKeys: Services that were closed are open then", "connections through Envoy end with it; all others go on")
	switch {
	case s.Agent != nil && s.Agent.Datapath == kernel && s.Handed:
		p.step(Wait, "gridmesh-agent status", "wait until the kernel serves all: rules of before hand connections to Envoy until then: "+cmp.Or(unserved(s.Agent), "its agent is about to write others"))
	case s.handed():
		how := "give gridmesh-agent --datapath=kernel, and restart it"
		if s.Agent == nil {
			how = "start gridmesh-agent with --datapath=kernel"
		}
		if !s.Rules.None() { // beside which no agent starts without
			how = strings.Replace(how, "--datapath=kernel", "--datapath=kernel --take-over=kube-proxy", 1)
		}
		if s.Rules.None() {
			p.step(Yours, how, "have the kernel serve all: what Envoy is handed does not get through beside kube-proxy's rules")
		} else {
			p.Blocked = append(p.Blocked, "kube-proxy's rules are there, and connections are handed to Envoy as long as it serves: "+how)
		}
	}
	if s.Alive == "" { // what it left serves as of then
		p.step(Yours, startProxy, "start kube-proxy, behind gridmesh's rules")
	}
	if len(s.Serves) > 0 && (s.Alive == "" || len(lacks) > 0) {
		p.step(Wait, "", "wait until it serves "+kubeproxy.FamiliesText(s.Serves))
	}
	if s.Agent != nil {
		p.step(Yours, "stop gridmesh-agent and Envoy: the rules stay in force", "stop gridmesh's programs")
	}
	p.step(Yours, "gridmesh-agent cleanup --files --hand-over=kube-proxy (deploy/cleanup runs it)", "take gridmesh's rules away, once kube-proxy serves")
}

// neverServed is the way back where gridmesh serves nothing, and no agent answers.
func (p *Plan) neverServed(s Seen) {
	if s.Alive == "" {
		p.step(Yours, startProxy, "start kube-proxy: it does not run on this node")
	}
	if s.Installed {
		p.step(Yours, "gridmesh-agent cleanup --files", "take away the rules of an agent that never served")
	}
}

// kernel is what Report.Datapath has of an agent that hands Envoy nothing.
var kernel = topology.DatapathKernel.String()

// handed reports whether Envoy is handed connections, or will be: once it serves, once there is
// a Service for it, once kube-proxy's rules stay away. So says the agent or, where none answers,
// the rules in force.
func (s Seen) handed() bool {
	r := s.Agent
	if r == nil {
		return s.Handed
	}
	return r.Datapath != kernel && (!r.BesideKubeProxy || !r.KubeProxyUntil.IsZero())
}

// degraded reports whether there is something that the agent's status says it lacks.
func (s Seen) degraded() bool { return len(s.Agent.Degraded(s.At)) > 0 }

func (p *Plan) step(do Do, command, what string) {
	p.Steps = append(p.Steps, Step{What: what, Command: command, Do: do})
}
