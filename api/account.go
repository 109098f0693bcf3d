package api

import (
	"encoding/json"
	"strconv"

	"probity/store"
)

func (x *exchange) getCredits() error { return x.sendCredits(x.who.User.ID) }

func (x *exchange) sendCredits(account string) error {
	c, err := x.srv.rooms.Store.Credits(account)
	if err != nil {
		return err
	}
	return x.send(statusOK, creditsJSON(c))
}

func creditsJSON(c store.Credits) []byte {
	b := strconv.AppendInt([]byte(`{"balance":`), c.Balance, 10)
	b = strconv.AppendInt(append(b, `,"reserved":`...), c.Reserved, 10)
	return append(b, '}')
}

func (x *exchange) getOrigins() error {
	origins := x.srv.cfg.CallbackFrom
	if origins == nil {
		origins = []string{}
	}
	return x.sendAs(statusOK, map[string]any{"origins": origins})
}

// sendAs answers with a value as JSON.
func (x *exchange) sendAs(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.send(status, b)
}

func (x *exchange) getHealth() error { return x.send(statusOK, []byte(`{"status":"ok"}`)) }

func (x *exchange) getReadiness() error {
	if err := x.srv.readiness(); err != nil {
		return err
	}
	return x.send(statusOK, []byte(`{"status":"ready"}`))
}
