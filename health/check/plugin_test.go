package check

import (
	"strings"
	"testing"
	"time"
)

func TestPluginFlag(t *testing.T) {
	for text, want := range map[string]Plugin{
		"timeout=5,retrytime=3,weight=1,port=10250": {true, 5 * time.Second, 3, 1, 10250}, // as SuperEdge's manifests have it
		"timeout = 5 , retrytime=10, weight=1.0,":   {true, 5 * time.Second, 10, 1, 22},
		"timeout=500ms": {true, 500 * time.Millisecond, 3, 1, 22},
		"weight=0.3":    {true, time.Second, 3, 0.3, 22},
		"":              {true, time.Second, 3, 1, 22},
		"port=65535,weight=100,retrytime=1,timeout=60":   {true, time.Minute, 1, 100, 65535},
		"timeout=1m,retrytime=10,weight=1e-3,port=00022": {true, time.Minute, 10, 0.001, 22},
	} {
		p := NewPlugin(22)
		if err := p.Set(text); err != nil || p != want {
			t.Errorf("%q: %+v, %v, want %+v", text, p, err, want)
		}
		again := NewPlugin(1)
		if err := again.Set(p.String()); err != nil || again != p {
			t.Errorf("%q: its own text %q is read as %+v, %v", text, p.String(), again, err)
		}
	}
	if off := NewPlugin(22); off.String() != "" {
		t.Errorf("one that is off is %q", off.String())
	}
}

func TestMistakesInAPluginFlag(t *testing.T) {
	for text, want := range map[string][]string{
		"timeut=5":                    {`there is no "timeut"`, "did you mean timeout?"},
		"5":                           {`there is no "5"`, "timeout, retrytime, weight, port"},
		"timeout":                     {"timeout has no value: write timeout=1"},
		"timeout=":                    {"timeout=: must be seconds"},
		"timeout=0":                   {"more than 0"},
		"timeout=-1":                  {"more than 0"},
		"timeout=61":                  {"1m0s at most"},
		"timeout=9223372036854775807": {"1m0s at most"},
		"retrytime=0":                 {"from 1 to 10"},
		"retrytime=11":                {"from 1 to 10"},
		"retrytime=1.5":               {"whole number"},
		"weight=0":                    {"more than 0"},
		"weight=-1":                   {"more than 0"},
		"weight=101":                  {"100 at most"},
		"weight=NaN":                  {"weight=NaN"},
		"weight=Inf":                  {"weight=Inf"},
		"port=0":                      {"from 1 to 65535"},
		"port=65536":                  {"from 1 to 65535"},
		"port=ssh":                    {"port=ssh"},
		"port=22,port=23":             {"port is said twice"},
		"port=0,weight=0,x=1":         {"port=0", "weight=0", `"x"`},
	} {
		p := NewPlugin(22)
		err := p.Set(text)
		if err == nil || p != NewPlugin(22) {
			t.Errorf("%q: %+v, %v", text, p, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: the error %q does not say %q", text, err, w)
			}
		}
	}
}

// What is read is within its bounds, and reads the same from its own text.
func FuzzPlugin(f *testing.F) {
	f.Add("timeout=5,retrytime=3,weight=1,port=10250")
	f.Add("timeout=1h,,weight=0x1p-2, port = 1")
	f.Fuzz(func(t *testing.T, text string) {
		p := NewPlugin(22)
		if p.Set(text) != nil {
			if p != NewPlugin(22) {
				t.Errorf("%q changed something: %+v", text, p)
			}
			return
		}
		if err := p.validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		again := NewPlugin(1)
		if err := again.Set(p.String()); err != nil || again != p {
			t.Errorf("%q: %q is read as %+v, %v, and was %+v", text, p.String(), again, err, p)
		}
	})
}

func TestConfig(t *testing.T) {
	on := func(p *Plugin, text string) {
		if err := p.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		change func(c *Config)
		want   string // of the error
	}{
		"nothing said":         {func(*Config) {}, ""},
		"SuperEdge's manifest": {func(c *Config) { on(&c.KubeletAuth, "timeout=5,retrytime=3,weight=1,port=10250") }, ""},
		"weights that are no whole": {func(c *Config) {
			on(&c.Ping, "weight=0.7")
			on(&c.Kubelet, "weight=0.2")
			on(&c.KubeletAuth, "weight=0.1")
		}, ""},
		"weights that are too little":     {func(c *Config) { on(&c.Ping, "weight=0.5") }, "no node could ever be well"},
		"a line that is too high":         {func(c *Config) { on(&c.Ping, ""); c.ScoreLine = 101 }, "no node could ever be well"},
		"a line of nothing":               {func(c *Config) { c.ScoreLine = 0 }, "score line of 0"},
		"no time":                         {func(c *Config) { c.Within = 0 }, "must be positive"},
		"nobody at once":                  {func(c *Config) { c.Parallel = 0 }, "one is the least"},
		"a token for everybody":           {func(c *Config) { c.Credentials.Token = "t" }, "needs the CA"},
		"a certificate without its key":   {func(c *Config) { c.Credentials.Cert = "c" }, "needs its key"},
		"a plugin that no flag could say": {func(c *Config) { c.Ping = Plugin{On: true, Weight: 1} }, "pingplugin"},
	} {
		c := Default()
		tc.change(&c)
		if err := c.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
