package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// silentDNS is a name server on loopback that answers nothing until it speaks, and then that no domain takes mail.
type silentDNS struct{ speaks atomic.Bool }

func (d *silentDNS) serve(t *testing.T) (address string) {
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if d.speaks.Load() {
			reply := new(dns.Msg).SetReply(q)
			if asked := q.Question[0]; asked.Qtype == dns.TypeMX {
				head := dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeMX, Class: dns.ClassINET, Ttl: 300}
				reply.Answer = []dns.RR{&dns.MX{Hdr: head, Mx: "."}}
			}
			_ = w.WriteMsg(reply) // a lost answer is asked for again
		}
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { require.NoError(t, server.Shutdown()) })
	return packets.LocalAddr().String()
}

// startServe starts a server and returns where it listens.
func startServe(ctx context.Context, t *testing.T, args ...string) (server *exec.Cmd, url string) {
	server = harness.Command(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		args...)...)
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	in := bufio.NewScanner(lines)
	for in.Scan() {
		if _, rest, ok := strings.Cut(in.Text(), "msg=serving public="); ok {
			url = "http://" + strings.Fields(rest)[0]
			break
		}
	}
	require.NotEmpty(t, url, "it does not serve")
	go func() { _, _ = io.Copy(io.Discard, lines) }() // so that the server is never kept waiting
	return server, url
}

// TestALateAnswerOutlivesAKill kills a server with SIGKILL that owes the verdict of a single call. The next one
// verifies the address and calls back.
func TestALateAnswerOutlivesAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes processes; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	taken := make(chan []byte, 4)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			taken <- body
		}
	}))
	defer receiver.Close()
	w := &adminProcess{t: t, data: t.TempDir()}
	w.targetArgs = []string{"--data", w.data}
	w.run(0, "user", "add", "ann@example.com", "--credits", "10")
	key, _ := w.run(0, "key", "create", "--user", "ann@example.com", "--name", "first")
	resolver := &silentDNS{}
	args := []string{"--data", w.data, "--dns", resolver.serve(t), "--allow-private-callbacks", "127.0.0.0/8"}
	server, url := startServe(ctx, t, args...)
	request, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/verify/single",
		strings.NewReader(`{"email":"bo@shop.example","timeout":1,"callback_url":"`+receiver.URL+`"}`))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Contains(t, string(answer), `"reason":"timeout"`)
	require.Contains(t, string(answer), `"callback_pending":true`)
	require.NoError(t, server.Process.Kill())
	require.Error(t, server.Wait())
	require.Empty(t, taken)

	resolver.speaks.Store(true)
	server, _ = startServe(ctx, t, args...)
	defer func() {
		require.NoError(t, server.Process.Kill())
		require.Error(t, server.Wait())
	}()
	var event struct {
		Event   string
		Request string `json:"request_id"`
		Result  struct{ Email, Status, Reason string }
	}
	select {
	case body := <-taken:
		require.NoError(t, json.Unmarshal(body, &event))
	case <-ctx.Done():
		t.Fatal("no callback came")
	}
	require.Equal(t, "single.finished", event.Event)
	require.Equal(t, response.Header.Get("X-Request-Id"), event.Request)
	require.Equal(t, [3]string{"bo@shop.example", "INVALID", "null_mx"},
		[3]string{event.Result.Email, event.Result.Status, event.Result.Reason})
}
