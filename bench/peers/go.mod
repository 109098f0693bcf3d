module probity/bench/peers

go 1.26

require (
	github.com/AfterShip/email-verifier v1.4.1
	github.com/badoux/checkmail v1.2.4
	github.com/truemail-rb/truemail-go v1.1.4
	golang.org/x/sys v0.25.0
)

require (
	github.com/brianvoe/gofakeit/v6 v6.28.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/foxcpp/go-mockdns v1.1.0 // indirect
	github.com/hbollon/go-edlib v1.6.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/miekg/dns v1.1.62 // indirect
	github.com/mocktools/go-smtp-mock/v2 v2.3.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/stretchr/objx v0.5.2 // indirect
	github.com/stretchr/testify v1.9.0 // indirect
	golang.org/x/mod v0.20.0 // indirect
	golang.org/x/net v0.29.0 // indirect
	golang.org/x/sync v0.8.0 // indirect
	golang.org/x/text v0.18.0 // indirect
	golang.org/x/tools v0.24.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
