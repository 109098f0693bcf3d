package api

import (
	"errors"
	"strings"

	"probity/api/httpd"
	"probity/api/record"
	"probity/engine"
	"probity/store"
)

func showSuppression(s store.Suppression) record.Suppression {
	return record.Suppression{Kind: s.Kind, Name: s.Name, Note: s.Note, By: s.By, Since: record.Time(s.Since)}
}

func listSuppressions(c *call) error {
	found, err := c.srv.deps.Store.Suppressions()
	if err != nil {
		return err
	}
	suppressions := []record.Suppression{}
	for _, s := range found {
		suppressions = append(suppressions, showSuppression(s))
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"suppressions": suppressions})
}

// parseSuppression parses a suppression into the form that the engine compares. An empty kind is an address if the name
// has an @, else a domain. Its error says what to change.
func parseSuppression(kind, name string) (store.Suppression, error) {
	s := store.Suppression{Kind: store.SuppressionKind(kind)}
	if kind == "" {
		s.Kind = store.SuppressionDomain
		if strings.Contains(name, "@") {
			s.Kind = store.SuppressionAddress
		}
	}
	switch s.Kind {
	case store.SuppressionAddress:
		a, err := engine.ParseTrimmed(name)
		if err != nil {
			return s, httpd.Refuse(httpd.Unacceptable, "name must be an e-mail address for kind address.")
		}
		s.Name = a.Folded()
	case store.SuppressionDomain, store.SuppressionMX:
		domain, err := engine.ParseDomain(strings.TrimSuffix(engine.Trim(name), "."))
		if syntax, ok := errors.AsType[engine.SyntaxError](err); ok && syntax.Kind == engine.KindDotless {
			return s, httpd.Refuse(httpd.Unacceptable,
				"name has one label, and would suppress everything under it: give a domain in full, such as example.com.")
		}
		if err != nil {
			return s, httpd.Refuse(httpd.Unacceptable,
				"name is not a domain name: kind %s needs one, such as example.com.", s.Kind)
		}
		s.Name = domain
	default:
		return s, httpd.Refuse(httpd.Unacceptable, "kind must be domain, mx or address.")
	}
	return s, nil
}

func suppress(c *call) error {
	d := c.Document()
	name, err := d.RequiredText("name")
	if err != nil {
		return err
	}
	if err := httpd.CheckShown("name", name, store.MaxName); err != nil {
		return err
	}
	kind, _, err := d.Text("kind")
	if err != nil {
		return err
	}
	s, err := parseSuppression(kind, name)
	if err != nil {
		return err
	}
	if s.Note, err = d.ShownText("note", maxNote); err != nil {
		return err
	}
	s.By = actor(c)
	added := []store.Suppression{s}
	if err := c.srv.deps.Store.Suppress(added, c.srv.now()); err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, showSuppression(added[0]))
}

func unsuppress(c *call) error {
	s, err := parseSuppression(c.QueryText("kind"), c.QueryText("name"))
	if err != nil {
		return err
	}
	if err := c.srv.deps.Store.Unsuppress(s.Kind, s.Name, actor(c), c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}
