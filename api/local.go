package api

import (
	"log/slog"
	"net/http"
	"time"

	"probity/api/described"
	"probity/api/httpd"
)

// Local answers the admin routes to the operator of this machine, who needs no key. It has no listener: only its own
// process can ask it, and a Server has none of its routes.
type Local struct{ server *Server }

// NewLocal makes a Local over the store of a data folder. The actor is named in the audit log.
func NewLocal(actor string, deps Deps) (*Local, error) {
	s := &Server{deps: deps, log: slog.New(slog.DiscardHandler), now: time.Now}
	var err error
	if s.described, err = described.Requests(descriptionJSON); err != nil {
		return nil, err
	}
	var routes []httpd.Route
	for _, r := range s.adminRoutes() {
		r.Admit = func(request *httpd.Call) error {
			request.App = &call{Call: request, srv: s, route: r, clockTime: request.Started, localActor: actor}
			return nil
		}
		routes = append(routes, r.Route)
	}
	refusal := func(err error) *httpd.Refusal {
		r := refusalOf(err)
		if r.Kind == httpd.Failed {
			r.Detail = err.Error() // there is no log
		}
		return r
	}
	s.http, err = httpd.New(httpd.Config{}, httpd.Deps{Routes: routes, NewID: deps.Store.NewRequest, Refusal: refusal,
		Fatal: func(any) bool { return true }})
	return &Local{s}, err
}

// RoundTrip implements http.RoundTripper.
func (l *Local) RoundTrip(req *http.Request) (*http.Response, error) {
	return l.server.http.RoundTrip(req)
}
