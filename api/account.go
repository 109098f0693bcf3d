package api

import (
	"encoding/json"
	"strconv"

	"probity/store"
)

func getCredits(c *call) error { return sendCredits(c, c.identity.User.ID) }

func sendCredits(c *call, account string) error {
	credits, err := c.srv.deps.Store.Credits(account)
	if err != nil {
		return err
	}
	return c.sendBytes(statusOK, creditsJSON(credits))
}

func creditsJSON(c store.Credits) []byte {
	b := strconv.AppendInt([]byte(`{"balance":`), c.Balance, 10)
	b = strconv.AppendInt(append(b, `,"reserved":`...), c.Reserved, 10)
	return append(b, '}')
}

func getOrigins(c *call) error {
	origins := c.srv.cfg.CallbackFrom
	if origins == nil {
		origins = []string{}
	}
	return sendJSON(c, statusOK, map[string]any{"origins": origins})
}

// sendJSON answers with a value as JSON.
func sendJSON(c *call, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.sendBytes(status, b)
}

func getHealth(c *call) error { return c.sendBytes(statusOK, []byte(`{"status":"ok"}`)) }

func getReadiness(c *call) error {
	if err := c.srv.readiness(); err != nil {
		return err
	}
	return c.sendBytes(statusOK, []byte(`{"status":"ready"}`))
}
