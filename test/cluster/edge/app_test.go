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

// UDP is answered from the address that was asked, of two that lead to the client: one
// that has dialled hears nobody else.
func TestAppAnswersFromTheAddressThatWasAsked(t *testing.T) {
	a, err := listenApp("me", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	port := a.l[1].(net.PacketConn).LocalAddr().(*net.UDPAddr).Port
	for _, to := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		c, err := net.Dial("udp", net.JoinHostPort(to, fmt.Sprint(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(c, "who")
		want := "me 127.0.0.1\n"
		if to == "::1" {
			want = "me ::1\n"
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != want {
			t.Errorf("%s: %q, %v", to, line, err)
		}
	}
}
