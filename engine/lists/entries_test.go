package lists

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestProvidersAreFreeAndNotDisposable names providers that the packages lacked or called disposable.
func TestProvidersAreFreeAndNotDisposable(t *testing.T) {
	s := defaultSet(t)
	for _, d := range strings.Fields(`tutanota.com tuta.com tutamail.com keemail.me tutanota.de tuta.io zoho.eu zohomail.com zohomail.eu yahoo.ne.jp startmail.com
		riseup.net disroot.org autistici.org posteo.de mailbox.org mailfence.com kolabnow.com hushmail.com hush.com vivaldi.net mailo.com murena.io
		bbox.fr sfr.fr neuf.fr numericable.fr zoznam.sk azet.sk seznam.cz volny.cz wp.pl go2.pl freemail.hu abv.bg dir.bg siol.net net.hr otenet.gr
		hispeed.ch sunrise.ch aon.at chello.at bezeqint.net walla.co.il netvision.net.il 21cn.com sify.com tom.com 263.net 139.com hongkong.com
		netvigator.com pchome.com.tw empal.com vsnl.com bsnl.in cytanet.com.cy ttnet.net.tr inbox.lv one.lt online.no telia.com comhem.se welho.com
		scarlet.be proximus.be caiway.nl pt.lu eircom.net zen.co.uk tiscali.it fastwebnet.it movistar.es meo.pt uol.com.br ibest.com.br cantv.net
		vtr.net sasktel.net eastlink.ca optonline.net suddenlink.net xtra.co.nz slingshot.co.nz mweb.co.za telkomsa.net emirates.net.ae chmail.ir
		sibmail.com vfemail.net purple.dev safe-mail.net mail333.com sudomail.com cock.li airmail.cc sdf.org
		qmail.com umail.com zmail.com dr.com consultant.com techie.com gawab.com mail.am mail.uz wanadoo.re lagoon.nc`) {
		require.Equal(t, engine.FlagFree, s.DomainFlags(d), d)
	}
}

func TestAliasServicesAreNotDisposable(t *testing.T) {
	s := defaultSet(t)
	for _, d := range strings.Fields(`privaterelay.appleid.com mozmail.com relay.firefox.com passmail.net passmail.com passinbox.com passfwd.com
		simplelogin.com simplelogin.co simplelogin.fr simplelogin.io aleeas.com slmail.me slmails.com silomails.com 8alias.com 8shield.net dralias.com
		addy.io anonaddy.com anonaddy.me addymail.com mailer.me 4wrd.cc duck.com bravealias.com hideaddress.net erine.email 33mail.com sneakemail.com`) {
		for _, domain := range []string{d, "ann." + d} { // addy.io and SimpleLogin give each customer a sub-domain
			flags := s.DomainFlags(domain)
			require.True(t, flags.Has(engine.FlagAlias), domain)
			require.False(t, flags.Has(engine.FlagDisposable) || flags.Has(engine.FlagTypo), domain)
			require.True(t, s.Known(domain), domain)
		}
	}
	for _, d := range strings.Fields("gmail.com icloud.com firefox.com appleid.com proton.me example.com mailinator.com xduck.com") {
		require.False(t, s.DomainFlags(d).Has(engine.FlagAlias), d)
	}
}

// TestSharedSuffixesAreNotDisposable: domains under a free DNS suffix belong to different owners.
func TestSharedSuffixesAreNotDisposable(t *testing.T) {
	s := defaultSet(t)
	for _, d := range strings.Fields("mooo.com us.to chickenkiller.com fr.nf pe.hu duckdns.org dynv6.net ddns.net eu.org") {
		require.Zero(t, s.DomainFlags("ann-and-tom."+d), d)
	}
	require.True(t, s.DomainFlags("abo-free.fr.nf").Has(engine.FlagDisposable), "a name under it that is listed")
}

// TestThrowAwayDomainsStayDisposable: the corrections did not remove real disposable domains.
func TestThrowAwayDomainsStayDisposable(t *testing.T) {
	s := defaultSet(t)
	for _, d := range strings.Fields(`mailinator.com guerrillamail.com sharklasers.com grr.la 10minutemail.com yopmail.com yopmail.fr temp-mail.org tempr.email trashmail.com
		dispostable.com mailnesia.com maildrop.cc getnada.com mohmal.com throwawaymail.com fakeinbox.com mintemail.com emailondeck.com moakt.com
		spam4.me mailcatch.com mytrashmail.com tempinbox.com discard.email discardmail.com spambog.com trash-mail.com wegwerfmail.de jetable.org`) {
		require.True(t, s.DomainFlags(d).Has(engine.FlagDisposable), d)
		require.True(t, s.DomainFlags("x."+d).Has(engine.FlagDisposable), d)
	}
}

func TestRolesInManyLanguages(t *testing.T) {
	s := defaultSet(t)
	for _, local := range strings.Fields(`contacts store buero soc dmarc null mailman
		dmarc-reports tls-reports mta-sts postmaster listmaster majordomo psirt csirt devops cron backup nagios
		stores purchasing tenders quotes dispatch warehouse membership humanresources human-resources frontdesk front-desk investor.relations reception2
		bewerbungen einkauf kundenservice sekretariat poststelle geschaeftsfuehrung rechnungen buchhaltung empfang versand personalabteilung
		accueil achats factures livraison secretariat ressources-humaines service.clients mairie
		administracion contabilidad gerencia recursoshumanos atencion-cliente facturas reservas informes
		amministrazione acquisti fatture segreteria ufficio.stampa risorse.umane prenotazioni
		financeiro compras faturamento recursos.humanos ouvidoria vagas
		verkoop inkoop boekhouding klantenservice vacatures administratie
		ksiegowosc kadry zamowienia obchod podpora fakturace objednavky
		salg kundeservice regnskap forsaljning faktura firmapost myynti asiakaspalvelu laskutus
		ertekesites ugyfelszolgalat vanzari contabilitate comenzi prodaja racunovodstvo
		satis muhasebe destek insankaynaklari pardavimai raamatupidamine
		buhgalteria otdelkadrov priemnaya zakupki lienhe tuyendung toiawase saiyo`) {
		require.True(t, s.Role(local), local)
	}
	for _, local := range strings.Fields(`ann mailmann norman batman mann marta nina soccer storey nullen boston london paris tim vera rosa max jan
		ann.store store.ann contacts.ann hurt pop bok ruf luca silva kim lee wang ali maria garcia rossi novak popescu ivanov nguyen tanaka`) {
		require.False(t, s.Role(local), local)
	}
}

// TestListedTyposAreSuggested: no list has a typo as a provider, and a real provider is not a typo.
func TestListedTyposAreSuggested(t *testing.T) {
	s := defaultSet(t)
	for typed, want := range map[string]string{
		"icould.com": "icloud.com", "hitmail.com": "hotmail.com", "gmai.co": "gmail.com", "outlok.co": "outlook.com",
		"aol.co":   "aol.com",
		"yaho.com": "yahoo.com", "gmail.co": "gmail.com", "hotmail.con": "hotmail.com", "vahoo.com": "yahoo.com",
		"outiook.com": "outlook.com",
		"qmail.com":   "", "umail.com": "", "zmail.com": "", "xmail.com": "", "email.com": "", "tuta.com": "",
		"mozmail.com": "", "duck.com": "",
		"earthling.net": "", "eastmail.com": "", "hanmail2.net": "", "y7mail.com": "", "uymail.com": "", "aim.com": "",
		"inbox.com": "",
	} {
		if want != "" {
			want = "ann@" + want
		}
		require.Equal(t, want, s.Suggest(address(t, "ann@"+typed)), typed)
		require.Equal(t, want != "", s.DomainFlags(typed).Has(engine.FlagTypo), typed)
	}
}
