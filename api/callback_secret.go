package api

import (
	"probity/api/httpd"
	"probity/api/record"
)

// getSigning reports whether the account's callbacks are signed. A secret itself is shown once, when it is made.
func getSigning(c *call) error {
	signing, err := c.srv.deps.Store.Signing(c.identity.User.ID, c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{
		"signed": signing.Secret != "", "last4": record.TextOrNil(lastFour(signing.Secret)),
		"former_last4": record.TextOrNil(lastFour(signing.Former)), "former_until": record.TimeOrNil(signing.Until),
		"origins": c.srv.callbackOrigins(),
	})
}

// lastFour returns the last characters of a secret, by which people recognise it.
func lastFour(secret string) string { return secret[max(0, len(secret)-4):] }

func newSigningSecret(c *call) error { return sendNewSecret(c, c.identity.User.ID) }

func newSigningSecretFor(c *call) error {
	u, err := user(c, c.Param)
	if err != nil {
		return err
	}
	return sendNewSecret(c, u.ID)
}

// sendNewSecret gives an account a new signing secret; the one before stays valid for a day.
func sendNewSecret(c *call, account string) error {
	now := c.srv.now()
	secret, err := c.srv.deps.Store.NewCallbackSecret(account, actor(c), now)
	if err != nil {
		return err
	}
	signing, err := c.srv.deps.Store.Signing(account, now)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, map[string]any{
		"secret": secret, "former_until": record.TimeOrNil(signing.Until),
	})
}

func dropSigningSecrets(c *call) error { return dropSecretsOf(c, c.identity.User.ID) }

func dropSigningSecretsOf(c *call) error {
	u, err := user(c, c.Param)
	if err != nil {
		return err
	}
	return dropSecretsOf(c, u.ID)
}

func dropSecretsOf(c *call, account string) error {
	if err := c.srv.deps.Store.DropCallbackSecrets(account, actor(c), c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}
