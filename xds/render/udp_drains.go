package render

import "time"

const (
	// udpDrainTime is how long Envoy holds a listener that was closed, by default.
	udpDrainTime = 10 * time.Minute
	// maxUDPDrains is how many such a namespace may have and still get new ones. One
	// costs Envoy two sockets and 15 KiB.
	maxUDPDrains = 250
)

// udpDrains are the UDP listeners that Envoy was told to close and still holds.
// They are nobody's place any more, so whoever has listeners come and go would
// fill Envoy with them.
type udpDrains struct {
	now        time.Time
	list       []udpDrain // the oldest first
	namespaces map[string]int
}

type udpDrain struct {
	namespace string
	until     time.Time
}

func (d *udpDrains) add(namespace string) {
	d.list = append(d.list, udpDrain{namespace, d.now.Add(udpDrainTime)})
	d.namespaces[namespace]++
}

// pass is told the time, and reports whether a namespace has room again.
func (d *udpDrains) pass(now time.Time) (room bool) {
	d.now = now
	for len(d.list) > 0 && !now.Before(d.list[0].until) {
		namespace := d.list[0].namespace
		d.list = d.list[1:]
		if d.namespaces[namespace]--; d.namespaces[namespace] == 0 {
			delete(d.namespaces, namespace)
		}
		room = room || d.namespaces[namespace] == maxUDPDrains-1
	}
	return room
}

func (d *udpDrains) full(namespace string) bool { return d.namespaces[namespace] >= maxUDPDrains }
