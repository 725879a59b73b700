package check

import "context"

// Probe looks at a node once, until its context ends at most. It returns nil of one that is
// well, with what is to be known of that all the same.
type Probe interface {
	Look(ctx context.Context, t Target) (note string, err error)
}

// kind is a kind of probe.
type kind struct {
	name, flag string
	of         func(c *Config) *Plugin
	build      func(c *Config) Probe
}

// kinds are all there are. The flags have SuperEdge's names.
var kinds = []kind{
	{"ping", "pingplugin", func(c *Config) *Plugin { return &c.Ping }, func(c *Config) Probe { return ping{c.Ping.Port} }},
	{"kubelet", "kubeletplugin", func(c *Config) *Plugin { return &c.Kubelet }, func(c *Config) Probe { return kubelet{c.Kubelet.Port} }},
	{"kubeletauth", "kubeletauthplugin", func(c *Config) *Plugin { return &c.KubeletAuth }, func(c *Config) Probe {
		return kubeletAuth{c.KubeletAuth.Port, c.Credentials}
	}},
}
