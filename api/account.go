package api

import (
	"encoding/json"
	"strconv"

	"probity/store"
)

func (c *call) getCredits() error { return c.sendCredits(c.identity.User.ID) }

func (c *call) sendCredits(account string) error {
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

func (c *call) getOrigins() error {
	origins := c.srv.cfg.CallbackFrom
	if origins == nil {
		origins = []string{}
	}
	return c.sendJSON(statusOK, map[string]any{"origins": origins})
}

// sendJSON answers with a value as JSON.
func (c *call) sendJSON(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.sendBytes(status, b)
}

func (c *call) getHealth() error { return c.sendBytes(statusOK, []byte(`{"status":"ok"}`)) }

func (c *call) getReadiness() error {
	if err := c.srv.readiness(); err != nil {
		return err
	}
	return c.sendBytes(statusOK, []byte(`{"status":"ready"}`))
}
