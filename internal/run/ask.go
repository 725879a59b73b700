package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Bounds of an answer: an agent's status is some KiB.
const (
	askTimeout = 5 * time.Second
	maxAnswer  = 16 << 20
)

// AskUnix reads what a program of this machine tells at a path of its Unix
// socket, which is JSON, into answer. It waits for 5 s at most.
func AskUnix(ctx context.Context, socket, path string, answer any) error {
	client := &http.Client{Timeout: askTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://unix"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", socket, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("read what %s answers: %w", socket, err)
	}
	return nil
}

// Asked is a program that AskUnix asks, in words.
type Asked struct {
	Word, Program string
	Ended         string // what to look at where it ended: a sentence without its full stop
}

// Unanswered says why it does not answer on a socket, and the next step; other errors of
// AskUnix, and nil, stay as they are.
func (a Asked) Unanswered(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no %s answers on %s, which is not there: is %s running on this node? %s", a.Word, socket, a.Program, a.Ended)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no %s answers on %s, though one did: is %s running on this node? %s", a.Word, socket, a.Program, a.Ended)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no %s answers on %s, for you may not open it; use sudo", a.Word, socket)
	}
	return err
}
