package api

import (
	"strings"

	"probity/api/httpd"
	"probity/coordinator/callback"
	"probity/coordinator/ingest"
)

// testList is the list of a test delivery: one row of each outcome, none of which is probed.
const testList = "email\nvalid@example.com\ncatch_all@example.com\nmailbox_not_found@example.com\ngreylisted@example.com\n"

// testCallback sends a callback of a job that probes nothing and costs nothing. It counts as an upload and needs disk
// space like one: its job is kept as long.
func testCallback(c *call) error {
	if err := c.srv.checkDiskSpace(); err != nil {
		return err
	}
	d := c.Document()
	url, err := d.RequiredText("url")
	if err != nil {
		return err
	}
	if c.srv.deps.Callbacks == nil {
		return httpd.Refuse(httpd.Unacceptable, "Callbacks are disabled on this server: ask your administrator.")
	}
	if err := c.srv.deps.Callbacks.CheckURL(c.srv.http.StopContext(), url); err != nil {
		return err
	}
	j, err := c.srv.deps.Coordinator.Accept(c.srv.http.StopContext(),
		ingest.Upload{Body: strings.NewReader(testList), Options: ingest.Options{
			Account: c.identity.User.ID, Name: "Callback test", Filename: "callback-test.csv", Test: true,
			CallbackURL:     url,
			CallbackContent: callback.ContentFull, MaxHours: 1,
			Parts: c.acceptanceParts}})
	c.setUploadDecision(err)
	if err != nil {
		return err
	}
	return sendJob(c, httpd.StatusAccepted, j.ID)
}
