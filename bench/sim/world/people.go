package world

// The names of the population, and how many of 100,000 list rows belong to each
// provider. Names have at most six letters, so that first name, dot, last name
// and five digits pass the mailbox rules of every provider (18 characters).

var firstNames = []string{
	"anna", "bela", "carla", "david", "elena", "felix", "greta", "hugo", "ines", "jonas",
	"karin", "lukas", "maria", "nils", "olga", "pavel", "rita", "sofia", "tomas", "ulla",
	"viktor", "wanda", "xenia", "yusuf", "zoe", "adam", "bruno", "clara", "dario", "emil",
	"fatma", "georg", "hanna", "ivan", "jana", "kenji", "laura", "marco", "nadia", "oscar",
	"petra", "rafael", "simon", "tanja", "umar", "vera", "wen", "yara", "zoltan", "aisha",
}

// foreignNames need SMTPUTF8 (RFC 6531) in a local part.
var foreignNames = []string{"jörg", "zoë", "núria", "søren", "đorđe"}

// Last names are three syllables of these: half a million names.
const (
	consonants = "bdfghklmnprstvwz"
	vowels     = "aeiou"
)

var companyFirst = []string{
	"alder", "birch", "cedar", "delta", "ember", "fjord", "granite", "harbor", "indigo", "juniper",
	"kestrel", "linden", "meadow", "nimbus", "orchard", "pebble", "quartz", "raven", "saffron", "tundra",
	"umbra", "velvet", "willow", "yarrow", "zephyr", "amber", "bramble", "copper", "drift", "elm",
	"falcon", "glacier", "hazel", "iron", "jade", "kelp", "lantern", "mosaic", "north", "opal",
	"pine", "quill", "ridge", "silver", "thistle", "urchin", "violet", "walnut", "yonder", "zenith",
}

var companySecond = []string{
	"bakery", "bikes", "books", "bridge", "cargo", "clinic", "coffee", "craft", "dental", "design",
	"energy", "farms", "films", "foods", "forge", "garden", "glass", "health", "homes", "hotels",
	"labs", "legal", "logistics", "media", "metals", "mills", "motors", "museum", "music", "optics",
	"paper", "parts", "pharma", "photo", "press", "radio", "robotics", "sailing", "school", "shoes",
	"software", "sports", "studio", "supply", "tools", "toys", "trading", "travel", "works", "yachts",
}

var cities = []string{
	"Aarhus", "Bilbao", "Cork", "Dresden", "Espoo", "Firenze", "Gdansk", "Haarlem", "Izmir", "Jena",
	"Krakow", "Lyon", "Malmo", "Nantes", "Osaka", "Porto", "Quito", "Riga", "Seoul", "Tartu",
	"Utrecht", "Varna", "Winnipeg", "Ypres", "Zagreb",
}

// roleNames are role accounts that any list of them contains.
var roleNames = []string{"info", "sales", "support", "admin", "contact", "webmaster", "postmaster", "abuse"}

// disposableDomains are disposable-address services that any list of them contains.
var disposableDomains = []string{"mailinator.com", "guerrillamail.com", "yopmail.com", "10minutemail.com",
	"sharklasers.com"}

// Typos of major domains: most do not exist, some have a null MX, and some have
// ordinary mail servers.
var (
	typosMissing = []string{"gmial.com", "gamil.com", "gmaul.com", "hotmial.com", "hotmsil.com", "yahpo.com",
		"yaboo.com", "outloik.com", "iclpud.com", "gmail.con"}
	typosNullMX = []string{"gmakl.com", "yahuu.com", "outlokk.com"}
	typosLive   = []string{"gmaiil.com", "hotmaiil.com", "yahhoo.com", "outlooik.com"}
)

// internationalDomains are U-label and A-label of the same name (RFC 5890).
var internationalDomains = [][2]string{
	{"bücherei-lindau.example", "xn--bcherei-lindau-gsb.example"},
	{"münzfreunde-nord.example", "xn--mnzfreunde-nord-zvb.example"},
	{"señal-norte.example", "xn--seal-norte-u9a.example"},
}

// rowShare is how many of 100,000 rows a provider or a persona has, and its public
// mail domains. consumerPercent is the percentage of its rows at those.
type rowShare struct {
	rows            int
	domains         []string
	consumerPercent int
}

// byProvider is keyed by Persona.Provider. If a provider has several personas, the
// first has four fifths of the rows and all public domains.
var byProvider = map[string]rowShare{
	"google":       {35000, []string{"gmail.com", "gmail.com", "gmail.com", "gmail.com", "googlemail.com"}, 70},
	"microsoft365": {17000, nil, 0},
	"outlook":      {9000, []string{"outlook.com", "hotmail.com", "live.com", "msn.com"}, 100},
	"yahoo":        {8000, []string{"yahoo.com", "yahoo.com", "aol.com", "ymail.com"}, 95},
	"icloud":       {3000, []string{"icloud.com", "me.com", "mac.com"}, 98},
	"mimecast":     {1500, nil, 0},
	"proofpoint":   {1500, nil, 0},
	"barracuda":    {700, nil, 0},
	"cisco":        {600, nil, 0},
	"gmx":          {2500, []string{"gmx.net", "gmx.de", "web.de", "mail.com"}, 100},
	"qq":           {900, []string{"qq.com", "foxmail.com"}, 95},
	"netease":      {900, []string{"163.com", "126.com"}, 95},
	"zoho":         {700, []string{"zohomail.com"}, 40},
	"mailru":       {800, []string{"mail.ru", "bk.ru", "inbox.ru", "list.ru"}, 95},
	"orange":       {700, []string{"orange.fr", "wanadoo.fr"}, 100},
	"laposte":      {300, []string{"laposte.net"}, 100},
	"tonline":      {600, []string{"t-online.de"}, 100},
	"godaddy":      {1200, nil, 0},
	"docomo":       {300, []string{"docomo.ne.jp"}, 100},
	"comcast":      {1000, []string{"comcast.net"}, 100},
}

// byName is keyed by Persona.Name, for receivers that are not of a known provider.
var byName = map[string]rowShare{
	"postfix":   {3000, nil, 0},
	"exim":      {1500, nil, 0},
	"sendmail":  {600, nil, 0},
	"qmail":     {300, nil, 0},
	"catch-all": {900, nil, 0},
}

const (
	rowsInTable       = 100_000 // length of World.rowDomains
	rowsOddPersona    = 50      // of a persona in neither table
	rowsRarePersona   = 3       // of a persona that costs a long timeout
	rowsDisposable    = 400
	rowsTypo          = 1000
	rowsInternational = 90
	maxDomains        = 1200 // of one persona
	rowsPerDomain     = 8
	minDomains        = 3
	domainsPerHoster  = 12
)
