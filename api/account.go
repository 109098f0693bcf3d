package api

import (
	"strconv"

	"probity/api/httpd"
	"probity/internal/buildinfo"
	"probity/store"
)

func getCredits(c *call) error { return sendCredits(c, c.identity.User.ID) }

func sendCredits(c *call, account string) error {
	credits, err := c.srv.deps.Store.Credits(account)
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, creditsJSON(credits))
}

func creditsJSON(c store.Credits) []byte {
	b := strconv.AppendInt([]byte(`{"balance":`), c.Balance, 10)
	b = strconv.AppendInt(append(b, `,"reserved":`...), c.Reserved, 10)
	return append(b, '}')
}

func getOrigins(c *call) error {
	return c.SendJSON(httpd.StatusOK, map[string]any{"origins": c.srv.callbackOrigins()})
}

// callbackOrigins returns the addresses that callbacks come from, as far as the operator names them.
func (s *Server) callbackOrigins() []string { return orEmpty(s.cfg.CallbackFrom) }

func getReasons(c *call) error { return c.SendBytes(httpd.StatusOK, c.srv.reasonsBody) }

func getHealth(c *call) error { return c.SendBytes(httpd.StatusOK, []byte(`{"status":"ok"}`)) }

func getReadiness(c *call) error {
	if err := c.srv.Readiness(); err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, buildinfo.Readiness{Status: "ready", Build: c.srv.deps.Build})
}
