package wire

// Protocol is the newest version of the protocol that we speak; from 2 on we speak the one before too. See doc.go.
const Protocol = 1 // third draft: until the first release the messages may change under this number

// Coordinator says which coordinator attaches. Term grows with every start of the coordinator of that ID.
type Coordinator struct {
	ID   string
	Term uint64
}

// Identity is one egress source of a node, as in its hello.
type Identity struct {
	Name   string // unique in the cluster: the address that receivers see, else the EHLO name
	Local  string // source address; empty where the system chooses
	Public string // what receivers see
	EHLO   string
}

// Hello is what a node says of itself when a coordinator attaches.
type Hello struct {
	Version    string
	Identities []Identity
	Fresh      bool // it had asked no receiver since its start, nor was it at work in the hour before
}
