package api

import (
	"context"
	"time"

	"probity/api/httpd"
	"probity/api/record"
	"probity/engine"
)

// domainTimeout bounds the lookup of a domain.
const domainTimeout = 10 * time.Second

// getDomain serves what is known of a domain without asking its mail servers.
func getDomain(c *call) error {
	if _, err := engine.Parse("x@" + c.Param); err != nil {
		return httpd.Refuse(httpd.Unacceptable, "The domain in the path is not one: use a name such as example.com.")
	}
	ctx, cancel := context.WithTimeout(c.srv.http.StopContext(), domainTimeout)
	defer cancel()
	d, err := c.srv.deps.Coordinator.Domain(ctx, c.Param)
	if err != nil {
		return err
	}
	_, suppressed := c.srv.deps.Store.SuppressedDomain(d.Name, d.Route.Hosts)
	return c.SendJSON(httpd.StatusOK, record.NewDomain(&d, suppressed))
}
