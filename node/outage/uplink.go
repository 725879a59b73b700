package outage

import "time"

const (
	// After is how long the cloud is silent before its word about this
	// unit may be stale. Kubernetes gives a node 40 to 50 s.
	After = 20 * time.Second
	// FirstWord is how long a process that begins waits for the cloud's first word
	// before it counts what the process before it did not hear, either.
	FirstWord = 5 * time.Second
	// VouchFor is how old the last contact may be for which a process that begins
	// takes the last good state for current; and by how much it may be still to come,
	// for the clock was set back since.
	VouchFor = 5 * time.Minute
)

// Noted is what the processes before have noted.
type Noted struct {
	Record   Record
	Recorded bool      // there is a record
	Contact  time.Time // the last; zero where that is not known
	Boot     string    // in which it was
}

// Uplink measures for how long the cloud has been silent. An outage is recorded
// on disk while it lasts and until what is held after it was let go, so that it
// outlives a restart; and so is the last contact. Both vouch for
// the last good state, which is of any age without.
type Uplink struct {
	Started     time.Time // of this process
	LastContact time.Time // the newest sign of life, or when this process began
	Met         bool      // this process has had one, and a whole snapshot
	Vouched     bool      // the one before had both just before it ended
	Trusted     bool      // the state that this process found was vouched for
	Away        bool      // there was an outage, and no hold has begun for it yet
	Back        bool      // it is over
	Since       time.Time // when it began
	Recorded    bool      // somebody lived through its beginning
	Rebooted    bool      // that was before this boot

	first  time.Time     // the first sign of life that this process had
	again  bool          // an outage began after it
	asleep time.Duration // of the silence, what no clock of a time here has counted

	Boot   string    // this one; empty where that is not known
	booted bool      // the process that vouches ended before this boot
	Before Record    // what the process before recorded, until a hold goes on with it
	Known  time.Time // the newest contact of the processes before; zero where that is not known
}

// NewUplink begins with what the processes before have noted.
func NewUplink(p Noted, boot string, now time.Time) Uplink {
	u := Uplink{Started: now, LastContact: now, Boot: boot}
	// A node without a clock of its own begins with the time that it last wrote down.
	if ahead := p.Contact.Sub(now); ahead > 0 && ahead < VouchFor {
		p.Contact = now
	}
	u.Known = newest(now, p.Contact, p.Record.LastContact)
	if p.Recorded {
		u.Away, u.Recorded, u.Before, u.Since, u.LastContact = true, !p.Record.Stale, p.Record, now, time.Time{} // any sign of life ends it
		u.Trusted = u.Recorded
		u.Rebooted = u.otherBoot(p.Record.Boot)
		if since := p.Record.Since; !since.IsZero() && since.Before(now) {
			u.Since = ofProcess(since, now)
		}
		return u
	}
	if age := now.Sub(p.Contact); age >= 0 && age < VouchFor {
		u.LastContact, u.Vouched, u.Trusted, u.booted = ofProcess(p.Contact, now), true, true, u.otherBoot(p.Boot)
	}
	return u
}

// newest is the last of some times, without those that are still to come: a clock
// that was wrong when they were noted says nothing about how long it is ago.
func newest(now time.Time, times ...time.Time) (last time.Time) {
	for _, at := range times {
		if at.After(last) && !at.After(now) {
			last = ofProcess(at, now)
		}
	}
	return last
}

// ofProcess is a time from disk as one of this process: from then on it is as old as it
// is, also when somebody sets the clock.
func ofProcess(at, now time.Time) time.Time { return now.Add(-now.Sub(at)) }

func (u *Uplink) otherBoot(boot string) bool { return u.Boot == "" || boot != u.Boot }

// Slept notes that the node may have slept since the last contact: nobody here heard
// the cloud meanwhile, nor the cloud this node.
func (u *Uplink) Slept(d time.Duration) { u.asleep = max(u.asleep, u.asleep+d) }

// Silent reports whether the cloud has said nothing for long, until a time.
func (u *Uplink) Silent(until time.Time) bool {
	return until.Sub(u.LastContact) >= After-u.asleep && until.Sub(u.Started) >= FirstWord-u.asleep
}

// Contacted takes the newest sign of life.
func (u *Uplink) Contacted(contact time.Time) {
	if !contact.After(u.LastContact) {
		return
	}
	if !u.Away && u.Silent(contact) {
		u.Begin()
	}
	if u.first.IsZero() {
		u.first = contact
	}
	u.LastContact, u.Back, u.asleep = contact, true, 0
}

// Begin notes that an outage has begun with the last sign of life.
func (u *Uplink) Begin() {
	u.again = u.again || !u.first.IsZero()
	u.Away, u.Since, u.Recorded, u.Rebooted = true, u.LastContact, u.Met || u.Vouched, !u.Met && u.booted
}

// End notes that its end is acted on.
func (u *Uplink) End() { u.Away, u.Back, u.Before = false, false, Record{} }

// Learn takes what the processes before have noted, where that comes after this
// process has begun without: as if it had been known, as far as nothing that came
// since is newer. It reports whether an outage has ended meanwhile that nobody
// has acted on, and when.
func (u *Uplink) Learn(p Noted) (ended time.Time, missed bool) {
	was := *u
	*u = NewUplink(p, was.Boot, was.Started)
	defer func() { u.asleep = was.asleep }() // since the last contact, whichever that is
	switch {
	case was.first.IsZero(): // there was no contact yet
		if was.Away && !u.Away {
			u.Begin()
		}
		return time.Time{}, false
	case was.again: // one of this process's own is newer
		was.Known, was.Trusted = u.Known, u.Trusted
		*u = was
		return time.Time{}, false
	}
	u.Contacted(was.first)
	u.LastContact, u.Met = was.LastContact, was.Met
	return was.first, u.Away
}
