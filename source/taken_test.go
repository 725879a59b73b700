package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// allTold are the Problems of a state, of its Services and of their slices as well.
func allTold(s *topology.Snapshot) (all []topology.Problem) {
	all = append(all, s.Problems...)
	for _, e := range s.Services.All() {
		all = append(all, e.Service.Problems...)
		for _, slice := range e.Slices {
			all = append(all, slice.Problems...)
		}
	}
	return all
}

// wantLoss expects one Problem with a text and a loss.
func wantLoss(t *testing.T, s *topology.Snapshot, loss topology.Loss, text string) {
	t.Helper()
	if all := allTold(s); len(all) != 1 || all[0].Loss != loss || !strings.Contains(all[0].String(), text) {
		t.Errorf("told is %+v, want one of loss %d with %q", all, loss, text)
	}
}

// What any API server takes follows its file, however odd, and is told.
func TestWhatAnAPIServerTakesIsFollowed(t *testing.T) {
	const balanced = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.96.0.%d, ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{ip: %s}]}}}\n"
	slice := func(n int, port string) string {
		return staysWeb + "---\n" + strings.NewReplacer("10.0.0.1", fmt.Sprint("10.0.0.", n), "port: 8080", "port: "+port).Replace(staysSlice)
	}
	for name, tc := range map[string]struct {
		before, odd string
		want        string // of what is in force with the odd one
		told        string
	}{
		"a slice's port 0":           {slice(1, "8080"), slice(2, "0"), "10.0.0.2", "ports[0].port: 0 is no port"},
		"a slice's port beyond":      {slice(1, "8080"), slice(2, "99999"), "10.0.0.2", "ports[0].port: 99999 is no port"},
		"a load balancer's loopback": {fmt.Sprintf(balanced, 1, "192.0.2.1"), fmt.Sprintf(balanced, 2, "127.0.0.1"), "10.96.0.2", "status.loadBalancer.ingress[0].ip: 127.0.0.1 cannot be dialled"},
		"of IPv4 in IPv6":            {fmt.Sprintf(balanced, 1, "192.0.2.1"), fmt.Sprintf(balanced, 2, "'::ffff:0.0.0.0'"), "10.96.0.2", "status.loadBalancer.ingress[0].ip: 0.0.0.0 cannot be dialled"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := NewDir(dir)
			for _, text := range []string{tc.before, tc.odd} {
				write(t, dir, "m.yaml", text)
				inForce(t, d)
			}
			if got := describe(newest(&d.Snapshots)); !strings.Contains(got, tc.want) {
				t.Errorf("in force is %s, want %s", got, tc.want)
			}
			wantLoss(t, newest(&d.Snapshots), topology.LostRest, tc.told)
		})
	}
}

// Whatever is not in force has a loss, though nothing stays for it.
func TestWhatIsPassedOverHasALoss(t *testing.T) {
	var many, fields strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "192.0.%d.%d, ", 2+i/250, 1+i%250)
	}
	for i := range maxUnknown + 2 {
		fmt.Fprintf(&fields, "odd%d: 1, ", i)
	}
	for name, tc := range map[string]struct {
		text string
		loss topology.Loss
		told string
	}{
		"Endpoints":      {"{apiVersion: v1, kind: Endpoints, metadata: {name: web}}\n", topology.LostAll, "endpoints default/web (file "},
		"1001 addresses": {strings.Replace(staysWeb, "ports:", "externalIPs: ["+many.String()+"], ports:", 1), topology.LostRest, "spec.externalIPs: has more than 1000 addresses"},
		"1001 ranges":    {strings.Replace(staysWeb, "ports:", "loadBalancerSourceRanges: ["+strings.ReplaceAll(many.String(), ",", "/32,")+"], ports:", 1), topology.LostRest, "spec.loadBalancerSourceRanges: has more than 1000 ranges"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "m.yaml", tc.text)
			d := NewDir(dir)
			inForce(t, d)
			wantLoss(t, newest(&d.Snapshots), tc.loss, tc.told)
		})
	}
	dir := t.TempDir()
	write(t, dir, "m.yaml", strings.Replace(staysWeb, "ports:", fields.String()+"ports:", 1))
	d := NewDir(dir)
	inForce(t, d)
	for _, p := range allTold(newest(&d.Snapshots)) {
		if p.Loss == topology.LostNothing {
			t.Errorf("no loss: %s", p)
		}
	}
}

// A Service with more addresses than are served follows its file all the same.
func TestMoreThanIsServedFreezesNothing(t *testing.T) {
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "192.0.%d.%d, ", 2+i/250, 1+i%250)
	}
	dir := t.TempDir()
	d := NewDir(dir)
	for _, port := range []string{"80", "81"} {
		write(t, dir, "m.yaml", staysWeb)
		inForce(t, d)
		write(t, dir, "m.yaml", strings.Replace(staysWeb, "ports: [{port: 80", "externalIPs: ["+many.String()+"], ports: [{port: "+port, 1))
		inForce(t, d)
		if e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"}); fmt.Sprint(e.Service.Ports[0].Port) != port || len(e.Service.Exposure.ExternalIPs) != 1000 {
			t.Errorf("port %s: in force is %+v", port, e.Service.Ports)
		}
	}
}

// A value that no API server takes, and in place of which what an API server told counts, is told.
func TestWhatIsOverriddenAndRefusedIsTold(t *testing.T) {
	const live = "{apiVersion: v1, kind: Service, metadata: {name: web, uid: u}, spec: {type: LoadBalancer, clusterIP: 10.96.0.1, ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}\n---\n"
	const over = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{ip: 192.0.2.300}]}}}\n"
	dir := t.TempDir()
	write(t, dir, "m.yaml", live+over)
	d := NewDir(dir)
	inForce(t, d)
	wantLoss(t, newest(&d.Snapshots), topology.LostValue, `m.yaml document 2): status.loadBalancer.ingress[0].ip: "192.0.2.300" is no IP address`)
}
