package httpd

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// RoundTrip answers a request of this process, without a connection. The work on a request ends with its context.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	defer context.AfterFunc(req.Context(), s.stop)()
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, discardLogger{})
	ctx.Request.SetRequestURI(req.URL.RequestURI())
	ctx.Request.Header.SetMethod(req.Method)
	for name, values := range req.Header {
		ctx.Request.Header.Set(name, values[0])
	}
	if req.Body != nil {
		defer req.Body.Close()
		ctx.Request.SetBodyStream(req.Body, int(req.ContentLength))
	}
	s.Handle(&ctx)
	status := ctx.Response.StatusCode()
	answer := &http.Response{Request: req, StatusCode: status,
		Status: strconv.Itoa(status) + " " + http.StatusText(status), Header: http.Header{}, ContentLength: -1}
	for name, value := range ctx.Response.Header.All() {
		answer.Header.Add(string(name), string(value))
	}
	if stream, ok := ctx.Response.BodyStream().(io.ReadCloser); ok {
		answer.Body = streamedBody{stream, s}
	} else {
		answer.Body = io.NopCloser(bytes.NewReader(ctx.Response.Body()))
	}
	return answer, nil
}

// streamedBody is the body of an answer that Stream writes.
type streamedBody struct {
	io.ReadCloser
	server *Server
}

// Close ends the body, and waits until what writes it has ended.
func (b streamedBody) Close() error {
	err := b.ReadCloser.Close()
	b.server.bodies.Wait()
	return err
}

// RefuseForeignHosts refuses requests whose host is neither localhost nor an address. A page in a browser on this
// machine can make its own name resolve to loopback and then read the answers (DNS rebinding); it cannot do so with
// these hosts.
func RefuseForeignHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if _, err := parseHop(host); err != nil && !strings.EqualFold(host, "localhost") {
			WriteRefusal(w, Refuse(Forbidden, "This listener is for this machine: ask it as localhost, or by its address."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WriteRefusal answers a request of net/http with a refusal.
func WriteRefusal(w http.ResponseWriter, r *Refusal) {
	for name, value := range r.headers() {
		w.Header().Set(name, value)
	}
	WriteJSON(w, r.status(), r.body())
}

// WriteJSON answers a request of net/http with JSON.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
