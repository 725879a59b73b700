package obs

// The keys of log lines, the same for the same thing in every program, so that
// a search finds it everywhere. A message is static: what differs from line to
// line is under a key. A new key takes a line here.
//
//	log.Warn("could not write an Event", obs.KeyReason, reason, obs.KeyErr, err)
const (
	KeyErr     = "err"     // error: what went wrong
	KeyProblem = "problem" // text: a user's mistake in an object, with its cure
	KeyReason  = "reason"  // text or CamelCase: what somebody else gave as the reason
	KeyWhy     = "why"     // text: why we do it

	// Objects.
	KeyNode      = "node"      // name of a Node
	KeyPod       = "pod"       // namespace/name
	KeyContainer = "container" // name in its pod
	KeyService   = "service"   // namespace/name
	KeyGrid      = "grid"      // kind namespace/name
	KeyChild     = "child"     // kind namespace/name of what a grid made
	KeyUnit      = "unit"      // value of the unit key
	KeyName      = "name"      // of a resource whose kind another key says
	KeyKind      = "kind"      // of a finding on the node
	KeyType      = "type"      // of an xDS resource: cluster, endpoints, …

	// What is done.
	KeyAction  = "action"  // of a controller on a child: create, apply, delete, …
	KeyWatch   = "watch"   // which watch of the API server: services, nodes, …
	KeyAddr    = "addr"    // address of a peer
	KeyIPs     = "ips"     // list of addresses
	KeyFlag    = "flag"    // with its dashes
	KeyVersion = "version" // of a peer
	KeyCIDRs   = "cidrs"   // list of prefixes
	KeyCert    = "cert"    // path of a certificate
	KeyExpires = "expires" // when a certificate does
	KeyReview  = "review"  // what an API server asks the webhook: node-taint, pod-status, …
	KeyRoute   = "route"   // of the kernel, with its table
	KeyPods    = "pods"    // how the node's pods are attached, in the words of capture

	// Numbers.
	KeyServices    = "services"    // how many
	KeyEndpoints   = "endpoints"   // how many
	KeyFrontends   = "frontends"   // how many
	KeyAway        = "away"        // for how long somebody was silent
	KeyWait        = "wait"        // for how long we wait before we try again, or have waited
	KeyConnections = "connections" // how many
	KeyUnits       = "units"       // how many
	KeyWhich       = "which"       // the first few of them
	KeyWrites      = "writes"      // how many failed
	KeyMembers     = "members"     // how many
	KeyMended      = "mended"      // how many
	KeyUnsaid      = "unsaid"      // how many lines like this one were left out before it
)
