package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProviderOfEachHost: an MX host leads to its provider, by its name and in its kind.
func TestProviderOfEachHost(t *testing.T) {
	table := DefaultTable()
	const narrow, wide = false, true
	for _, row := range []struct {
		host, id, name string
		wide           bool
	}{
		{"mx.freenet.de", "freenet", "freenet", wide},
		{"mx01.posteo.de", "posteo", "Posteo", wide},
		{"mxext1.mailbox.org", "mailboxorg", "mailbox.org", narrow},
		{"mail.tutanota.de", "tuta", "Tuta", narrow},
		{"inmx.rambler.ru", "rambler", "Rambler", wide},
		{"freemx1.sinamail.sina.com.cn", "sina", "Sina", wide},
		{"sohumx.h.a.sohu.com", "sohu", "Sohu", wide},
		{"mx2.mail.aliyun.com", "aliyun", "Aliyun / Alibaba Mail", wide},
		{"mx1.qiye.aliyun.com", "aliyun", "Aliyun / Alibaba Mail", wide},
		{"mxn.mxhichina.com", "aliyun", "Aliyun / Alibaba Mail", wide},
		{"mxw.263.net", "mail263", "263 Mail", narrow},
		{"mxwcom.263xmail.com", "mail263", "263 Mail", narrow},
		{"mx-whu-edu-cn.icoremail.net", "coremail", "Coremail", narrow},
		{"mx1.hanmail.net", "kakao", "Kakao / Daum", wide},
		{"aspmx.daum.net", "kakao", "Kakao / Daum", wide},
		{"mx.kakao.com", "kakao", "Kakao / Daum", wide},
		{"mx.rediffmail.rediff.akadns.net", "rediff", "Rediffmail", wide},
		{"mx.rediffmailpro.com", "rediffmail-pro", "Rediffmail Pro", narrow},
		{"mx.bt.prod.cloud.openwave.ai", "bt", "BT", wide},
		{"mx-10.eu-west.atmailcloud.com", "atmail", "atmail (Virgin Media, iiNet, Optus)", narrow},
		{"mx.tb.ukmail.iss.as9143.net", "virgin", "Virgin Media", wide},
		{"mx003.tt.xion.oxcs.net", "talktalk", "TalkTalk", wide},
		{"extmail.bigpond.com", "telstra", "Telstra", wide},
		{"mx1.telenet-ops.be", "telenet", "Telenet", wide},
		{"mxbw.lb.bluewin.ch", "bluewin", "Bluewin", wide},
		{"mxbw-bluewin-ch.hdb-cs04.ellb.ch", "bluewin", "Bluewin", wide},
		{"mxin5.ziggo.nl", "ziggo", "Ziggo", wide},
		{"mx.tb.mail.iss.as9143.net", "ziggo", "Ziggo", wide},
		{"mx1.centrum.cz", "centrum", "Centrum", wide},
		{"fmx.freemail.hu", "freemail-hu", "Freemail.hu", wide},
		{"pmx.abv.bg", "abv", "abv.bg", wide},
		{"mxs.ukr.net", "ukrnet", "ukr.net", wide},
		{"mx.interia.pl", "interia", "Interia", wide},
		{"mx.example.com.cust.a.hostedemail.com", "tucows", "Tucows Hosted Email", narrow},
		{"mx1.dreamhost.com", "dreamhost", "DreamHost", narrow},
		{"vade-in1.mail.dreamhost.com", "dreamhost", "DreamHost", narrow},
		{"mx1.mailchannels.net", "mailchannels", "MailChannels", narrow},
		{"mta-gw.infomaniak.ch", "infomaniak", "Infomaniak", narrow},
		{"aspmx1.migadu.com", "migadu", "Migadu", narrow},
		{"mfgw229.ocn.ad.jp", "ocn", "OCN", wide},
		{"smmx.nifty.com", "nifty", "Nifty", wide},
		{"rcpt-impgw.biglobe.ne.jp", "biglobe", "BIGLOBE", wide},
		{"mx.sendgrid.net", "sendgrid", "SendGrid Inbound Parse", narrow},
		{"mxa.mailgun.org", "mailgun", "Mailgun", narrow},
		{"mxb.eu.mailgun.org", "mailgun", "Mailgun", narrow},
		{"mail.zendesk.com", "zendesk", "Zendesk", narrow},
		{"mx1.forwardemail.net", "forwardemail", "Forward Email", narrow},
		{"mx2.improvmx.com", "improvmx", "ImprovMX", narrow},
		{"route1.mx.cloudflare.net", "cloudflare", "Cloudflare Email Routing", narrow},
		{"inbound-smtp.us-east-1.amazonaws.com", "amazon", "Amazon", narrow},
		{"inbound-smtp.eu-north-1.amazonaws.com", "amazon", "Amazon", narrow},
		{"0c0ffee.fips.wmjb.mail-manager-smtp.amazonaws.com", "amazon", "Amazon", narrow},
		{"lsean.ezweb.ne.jp", "au", "KDDI au", wide},
		{"msmx.au.com", "au", "KDDI au", wide},
		{"mx.ac.auone-net.jp", "au", "KDDI au", wide},

		// Hosts of other companies, or of customers, with similar names.
		{"ec2-192-0-2-5.us-west-2.compute.amazonaws.com", "", "other", narrow},
		{"ec2-192-0-2-5.compute-1.amazonaws.com", "", "other", narrow},
		{"shop-1.us-east-1.elb.amazonaws.com", "", "other", narrow},
		{"ov-0c0ffee.infomaniak.ch", "", "other", narrow},
		{"vps5.dreamhost.com", "", "other", narrow},
		{"o5.outbound-mail.sendgrid.net", "", "other", narrow},
		{"mx.altice.prod.cloud.openwave.ai", "", "other", narrow},
		{"mx001.other.xion.oxcs.net", "", "other", narrow},
		{"api-example-com.hdb-cs04.ellb.ch", "", "other", narrow},
		{"www.sina.com.cn", "", "other", narrow},
		{"notbigpond.com", "", "other", narrow},
	} {
		p := table.Match([]string{row.host})
		require.Equal(t, row.id, p.ID, row.host)
		require.Equal(t, row.name, p.Name, row.host)
		require.Equal(t, row.wide, p.Kind == KindWide, row.host)
	}
}

// TestConsumerDomainsLeadToTheirProvider: the domain alone is enough to find the provider. Rows of one domain are
// spread by address if the provider is wide: spread by domain, one source would get them all.
func TestConsumerDomainsLeadToTheirProvider(t *testing.T) {
	table := DefaultTable()
	for domain, id := range map[string]string{
		"freenet.de": "freenet", "rambler.ru": "rambler", "lenta.ru": "rambler", "sina.com": "sina", "sina.cn": "sina",
		"sohu.com":   "sohu",
		"aliyun.com": "aliyun", "hanmail.net": "kakao", "daum.net": "kakao", "kakao.com": "kakao",
		"rediffmail.com": "rediff",
		"btinternet.com": "bt", "talk21.com": "bt", "bigpond.com": "telstra", "ukr.net": "ukrnet",
		"interia.pl": "interia",
	} {
		p := table.ProviderOfHint(domain)
		require.Equal(t, id, p.ID, domain)
		require.True(t, (p.Kind == KindWide) && slices.Contains(p.ByAddress, domain), domain)
	}
	for hint, id := range map[string]string{
		"posteo.de": "posteo", "mailbox.org": "mailboxorg", "tutanota.com": "tuta", "263": "mail263",
		"virginmedia.com": "atmail",
		"ntlworld.com":    "virgin", "talktalk.net": "talktalk", "telenet.be": "telenet", "swisscom": "bluewin",
		"home.nl":  "ziggo",
		"atlas.cz": "centrum", "freemail.hu": "freemail-hu", "abv.bg": "abv", "opensrs": "tucows", "ocn.ne.jp": "ocn",
		"biglobe.ne.jp": "biglobe", "nifty.com": "nifty", "ses": "amazon", "auone-net.jp": "au",
	} {
		require.Equal(t, id, table.ProviderOfHint(hint).ID, hint)
	}
}

// TestServicesThatAcceptAnyRecipient: by their own documentation, an acceptance at RCPT proves nothing, so they are not
// probed.
func TestServicesThatAcceptAnyRecipient(t *testing.T) {
	table := DefaultTable()
	for _, id := range []string{"sendgrid", "forwardemail"} {
		require.True(t, table.Provider(id).AcceptAll, id)
	}
	for _, id := range []string{"mailgun", "zendesk", "improvmx", "cloudflare", "amazon"} {
		require.False(t, table.Provider(id).AcceptAll, id)
	}
}
