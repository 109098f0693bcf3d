package prober

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func (b *testNode) recentPage(query string) string {
	r, w := httptest.NewRequest(http.MethodGet, "/debug/probes"+query, nil), httptest.NewRecorder()
	b.prober.Recent().ServeHTTP(w, r)
	return w.Body.String()
}

func TestRecentProbesShowNoAddress(t *testing.T) {
	h := &fakeServer{terse: true, rcpt: func(local string) string {
		switch local {
		case "zed":
			return "550 5.1.1 <zed@a.example>: no mailbox of zed here"
		case "bob":
			return "451 4.3.0 try <b>later</b>"
		}
		return acceptsOnly("ann")(local)
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, "ann@a.example", "zed@a.example", "bob@a.example")...)
		all := b.recentPage("")
		require.Equal(t, 3, strings.Count(all, "\n"))
		require.NotContains(t, all, "zed")
		require.NotContains(t, all, "@")

		var got wire.Trace
		require.NoError(t, json.Unmarshal([]byte(b.recentPage("?email=Zed@A.example")), &got))
		require.NotZero(t, got.At)
		require.NotEmpty(t, got.Rule)
		require.NotEmpty(t, got.Source)
		got.At, got.Rule, got.Source = time.Time{}, "", ""
		require.Equal(t, wire.Trace{Host: "mx.a.example", Stage: "rcpt", Event: "reply", Code: 550, Enhanced: "5.1.1",
			Meaning: "no_mailbox", Status: "INVALID",
			Reason: "mailbox_not_found", Message: "5.1.1 <address>: no mailbox of <address> here", Attempts: 1,
			Egress: "mail.us.example", Provider: got.Provider}, got)

		deferred := b.recentPage("?email=bob@a.example")
		require.Contains(t, deferred, `"status":"DEFERRED","reason":"temporary_error","message":"4.3.0 try <b>later</b>"`)
		require.Equal(t, 1, strings.Count(deferred, "\n"))
		require.Empty(t, b.recentPage("?email=nobody@a.example"))
		require.Equal(t, "email is not an address\n", b.recentPage("?email=nobody"))
	})
}

// TestRecentShowsBothRepliesOfAValid: a VALID rests on two replies, and both are shown, each with its rule and the
// rule's source.
func TestRecentShowsBothRepliesOfAValid(t *testing.T) {
	var decoy string
	h := &fakeServer{terse: true, rcpt: func(local string) string {
		if local == "ann" || local == "bob" {
			return "250 2.1.5 ok"
		}
		decoy = local
		return "550 5.1.1 there is no " + local + " at ours"
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		asked := time.Now()
		time.Sleep(time.Hour)
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "bob@a.example")))
		const message = "5.1.1 there is no <address> at ours"
		for _, local := range []string{"ann", "bob"} { // of bob's decoy only a fact is known
			var got wire.Trace
			require.NoError(t, json.Unmarshal([]byte(b.recentPage("?email="+local+"@a.example")), &got))
			require.NotContains(t, got.Decoy.Message, decoy)
			require.NotEmpty(t, got.Decoy.Source)
			require.WithinDuration(t, asked, got.Decoy.At, time.Second, "asked once")
			got.Decoy.At, got.Decoy.Source = time.Time{}, ""
			require.Equal(t, &wire.Decoy{Event: "reply", Code: 550, Enhanced: "5.1.1", Meaning: "no_mailbox",
				Rule: got.Decoy.Rule, Message: message}, got.Decoy)
			require.Contains(t, got.Decoy.Rule, "generic/")
		}
	})
}

// TestRecentRefusesBadQueries: a bad query gets an error and no probes.
func TestRecentRefusesBadQueries(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": {rcpt: acceptsOnly("ann")}},
		func(b *testNode) {
			require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
			require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(time.Minute, mxA, "bob@a.example")))
			for query, want := range map[string]string{
				"?mail=x":                "there is no parameter \"mail\": email, status, provider and limit choose among the probes",
				"?email=nobody":          "email is not an address",
				"?email=":                "email is empty; leave it out to see all",
				"?status=GOOD":           "status \"GOOD\" is not one of VALID, RISKY, INVALID, UNKNOWN, DEFERRED",
				"?provider=nobody":       "provider \"nobody\" is not an id of the table; probity providers show lists them",
				"?limit=0":               "limit \"0\" is not a number from 1",
				"?limit=1&limit=2":       "limit is given twice",
				"?email=%zz":             "the query cannot be read: invalid URL escape \"%zz\"",
				"?status=valid":          "",
				"?status=INVALID":        "",
				"?limit=1":               "",
				"?provider=big":          "",
				"?email=ann%40a.example": "",
			} {
				r, w := httptest.NewRequest(http.MethodGet, "/debug/probes"+query, nil), httptest.NewRecorder()
				b.prober.Recent().ServeHTTP(w, r)
				if want != "" {
					require.Equal(t, http.StatusBadRequest, w.Code, query)
					require.Equal(t, want+"\n", w.Body.String())
					continue
				}
				require.Equal(t, http.StatusOK, w.Code, query)
				require.LessOrEqual(t, strings.Count(w.Body.String(), "\n"), 1, query)
			}
		})
}
