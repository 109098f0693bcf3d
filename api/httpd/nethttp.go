package httpd

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// RefuseForeignHosts refuses requests whose host is neither localhost nor an address. A page in a browser on this machine can
// make its own name resolve to loopback and then read the answers (DNS rebinding); it cannot do so with these hosts.
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
