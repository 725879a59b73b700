package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// The server answers its own protocol and HTTP on one port.
func TestAppSpeaksHTTP(t *testing.T) {
	a, err := listenApp("me", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	address := a.l[0].(net.Listener).Addr().(*net.TCPAddr)
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/any/where", address.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if want := "me 127.0.0.1\n"; err != nil || string(body) != want || resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP: %s %q, %v", resp.Status, body, err)
	}
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", address.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // one connection, two questions
		fmt.Fprintln(c, "who")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "me 127.0.0.1\n" {
			t.Errorf("who: %q, %v", line, err)
		}
	}
}
