package latest

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestNothingIsThereBeforeTheFirst(t *testing.T) {
	var v Value[*int]
	if got, ok := v.Get(); ok || got != nil {
		t.Errorf("got %v, %v before anything was published", got, ok)
	}
	if woken(v.Wake()) {
		t.Error("woken though nothing is published")
	}
	// Nothing is a value like any other.
	v.Publish(nil)
	if _, ok := v.Get(); !ok || !woken(v.Wake()) {
		t.Error("nil was published and is not there")
	}
}

// What is only to be there first takes the place of nothing, and wakes nobody then.
func TestPublishFirst(t *testing.T) {
	var v Value[string]
	wake := v.Wake()
	if !v.PublishFirst("old") || !woken(wake) {
		t.Error("the first is not published")
	}
	if v.PublishFirst("older") || woken(wake) {
		t.Error("published over another")
	}
	v.Publish("new")
	if v.PublishFirst("older") {
		t.Error("published over another")
	}
	if got, _ := v.Get(); got != "new" {
		t.Errorf("it is %q", got)
	}
}

func TestWakeIsNeverLostAndNeverQueued(t *testing.T) {
	var v Value[int]
	early := v.Wake()
	v.Publish(1)
	v.Publish(2)
	late := v.Wake()
	for name, wake := range map[string]<-chan struct{}{"early": early, "late": late} {
		if !woken(wake) {
			t.Errorf("%s: not woken", name)
		}
		if woken(wake) {
			t.Errorf("%s: woken twice for what one Get reads", name)
		}
	}
	if got, ok := v.Get(); !ok || got != 2 {
		t.Errorf("got %d, %v, want the newest, 2", got, ok)
	}
	v.Publish(3)
	if !woken(early) || !woken(late) {
		t.Error("not woken by the next one")
	}
}

func TestForgottenIsNotWoken(t *testing.T) {
	var v Value[int]
	stays, goes := v.Wake(), v.Wake()
	v.Forget(goes)
	v.Forget(goes) // no harm
	v.Publish(1)
	if woken(goes) {
		t.Error("a forgotten channel was filled")
	}
	if !woken(stays) {
		t.Error("another one was forgotten with it")
	}
}

func TestLastContact(t *testing.T) {
	var v Value[int]
	if at := v.LastContact(); !at.IsZero() {
		t.Errorf("in contact at %s before there was any", at)
	}
	at := time.Unix(1000, 0)
	v.Contacted(at)
	if woken(v.Wake()) {
		t.Error("contact alone woke a reader")
	}
	if got := v.LastContact(); !got.Equal(at) {
		t.Errorf("last contact %s, want %s", got, at)
	}
}

// Whoever follows ends at the newest value, however slow it is.
func TestFollowersEndAtTheNewest(t *testing.T) {
	const last = 1000
	var v Value[int]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			wake := v.Wake()
			defer v.Forget(wake)
			before := 0
			for before < last {
				<-wake
				now, ok := v.Get()
				if !ok || now < before {
					t.Errorf("read %d, %v after %d", now, ok, before)
					return
				}
				before = now
			}
		})
	}
	for i := range last {
		v.Publish(i + 1)
		v.Contacted(time.Unix(int64(i), 0))
	}
	wg.Wait()
}

// A channel of one slot has what was put last, read or not.
func TestPutLeavesTheNewest(t *testing.T) {
	ch := make(chan int, 1)
	for n := range 3 {
		Put(ch, n)
	}
	if got := <-ch; got != 2 {
		t.Errorf("%d is there, want 2", got)
	}
	Put(ch, 3)
	if got := <-ch; got != 3 {
		t.Errorf("%d is there, want 3", got)
	}
}
