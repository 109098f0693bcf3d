package api

import (
	"strings"

	"probity/engine"
	"probity/store"
)

// suppressionJSON is a wish never to be probed.
type suppressionJSON struct {
	Kind  store.StopKind `json:"kind"`
	Name  string         `json:"name"`
	Note  string         `json:"note"`
	By    string         `json:"by"`
	Since stamp          `json:"since"`
}

func showSuppression(s store.Suppression) suppressionJSON {
	return suppressionJSON{s.Kind, s.Name, s.Note, s.By, stamp(s.Since)}
}

func (x *exchange) listSuppressions() error {
	found, err := x.srv.rooms.Store.Suppressions()
	if err != nil {
		return err
	}
	wishes := []suppressionJSON{}
	for _, s := range found {
		wishes = append(wishes, showSuppression(s))
	}
	return x.sendAs(statusOK, map[string]any{"suppressions": wishes})
}

// Wish reads what is to be suppressed, in the form that the engine compares. An empty kind is an address when the name
// has an @, else a domain. Its error says what to change.
func Wish(kind, name string) (store.Suppression, error) {
	s := store.Suppression{Kind: store.StopKind(kind)}
	if kind == "" {
		s.Kind = store.StopDomain
		if strings.Contains(name, "@") {
			s.Kind = store.StopAddress
		}
	}
	switch s.Kind {
	case store.StopAddress:
		a, err := engine.ParseTrimmed(name)
		if err != nil {
			return s, refuse(unacceptable, "name must be an e-mail address for kind address.")
		}
		s.Name = a.Folded()
	case store.StopDomain, store.StopMX:
		domain, err := engine.ParseDomain(strings.TrimSuffix(engine.Trim(name), "."))
		if err != nil {
			return s, refuse(unacceptable, "name must be a domain name for kind %s.", s.Kind)
		}
		s.Name = domain
	default:
		return s, refuse(unacceptable, "kind must be domain, mx or address.")
	}
	return s, nil
}

func (x *exchange) suppress() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	name, err := d.needText("name")
	if err != nil {
		return err
	}
	kind, _, err := d.text("kind")
	if err != nil {
		return err
	}
	s, err := Wish(kind, name)
	if err != nil {
		return err
	}
	if s.Note, err = d.shortText("note", maxNote); err != nil {
		return err
	}
	s.By, s.Since = x.by(), x.srv.now().UTC()
	if err := x.srv.rooms.Store.Suppress([]store.Suppression{s}, x.srv.now()); err != nil {
		return err
	}
	return x.sendAs(statusCreated, showSuppression(s))
}

func (x *exchange) unsuppress() error {
	s, err := Wish(x.query("kind"), x.query("name"))
	if err != nil {
		return err
	}
	if err := x.srv.rooms.Store.Unsuppress(s.Kind, s.Name, x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}
