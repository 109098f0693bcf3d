package api

import (
	_ "embed"
)

//go:embed widget.js
var widgetScript []byte

//go:embed openapi.json
var descriptionJSON []byte

func getWidget(c *call) error {
	c.Ctx.Response.Header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return c.SendPage(c.srv.widgetPage, "public, max-age=3600")
}

func getDescription(c *call) error { return c.SendPage(c.srv.descriptionPage, "public, no-cache") }
func getDocs(c *call) error        { return c.SendPage(c.srv.docsPage, "public, no-cache") }

func getApp(c *call) error   { return c.srv.dashboard.files.SendPage(c.Call) }
func getAsset(c *call) error { return c.srv.dashboard.files.SendAsset(c.Call, c.Param) }
