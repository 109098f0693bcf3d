package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api"
	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/erase"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/wholefile"
	"probity/store"
	"probity/store/cache"
)

// local is the admin client of a stopped server's data folder.
type local struct {
	dir   string
	store *store.Store
}

// commandLineActor is the actor for the audit log: the name of the system user that runs the command.
func commandLineActor() string {
	from := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		from = u.Username
	}
	return store.AuditActor("command line", from)
}

// openLocal opens the store below dir. It creates one only if mayCreate is set: a misspelled folder is not an empty store.
func openLocal(dir string, mayCreate bool) (*local, error) {
	state := filepath.Join(dir, "state")
	if _, err := os.Stat(state); err != nil && !mayCreate {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no store in %s: name the folder that serve has as --data", dir)
		}
		return nil, fmt.Errorf("the store in %s: %w", dir, err)
	}
	if err := datafolder.RestrictOwn(dir); err != nil {
		return nil, err
	}
	s, err := store.Open(vfs.Default, state)
	if err != nil {
		return nil, adviseOnLock(dir, err)
	}
	return &local{dir: dir, store: s}, nil
}

// adviseOnLock adds what to do about a store that another process has open.
func adviseOnLock(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("a running server holds %s: use --server URL with %s, or stop it first: %w", dir, KeyEnv, err)
	}
	return err
}

func (r *local) Close() error { return r.store.Close() }

// user finds the account of an e-mail address or an id.
func (r *local) user(name string) (store.User, error) {
	find := r.store.User
	if strings.Contains(name, "@") {
		find = r.store.UserByEmail
	}
	u, err := find(name)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("there is no account %s: name it by its e-mail address or its id", console.Printable(name))
	}
	return u, err
}

// wholeSecond is a time as in the server's JSON.
func wholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func viewUser(u store.User) userView {
	return userView{ID: u.ID, Email: u.Email, Role: u.Role, Disabled: u.Disabled, Created: wholeSecond(u.Created), Limits: u.Limits, TOTP: u.TOTP}
}

func (r *local) AddUser(ctx context.Context, n store.NewUser) (userView, error) {
	u, password, err := r.store.AddUser(ctx, n, commandLineActor(), time.Now())
	v := viewUser(u)
	v.Password = password
	return v, err
}

func (r *local) Users(context.Context) ([]userView, error) {
	var views []userView
	for _, u := range r.store.Users() {
		views = append(views, viewUser(u))
	}
	return views, nil
}

func (r *local) SetDisabled(_ context.Context, user string, disabled bool) (userView, error) {
	change := r.store.EnableUser
	if disabled {
		change = r.store.DisableUser
	}
	return r.changeUser(user, func(id string) error { return change(id, commandLineActor(), time.Now()) })
}

func (r *local) SetLimits(_ context.Context, user string, l store.Limits) (userView, error) {
	return r.changeUser(user, func(id string) error { return r.store.SetLimits(id, l, commandLineActor(), time.Now()) })
}

// changeUser changes an account and returns the changed account.
func (r *local) changeUser(name string, change func(id string) error) (userView, error) {
	u, err := r.user(name)
	if err == nil {
		err = change(u.ID)
	}
	if err == nil {
		u, err = r.store.User(u.ID)
	}
	return viewUser(u), err
}

func (r *local) ResetLink(_ context.Context, user string) (resetView, error) {
	u, err := r.user(user)
	if err != nil {
		return resetView{}, err
	}
	token, expires, err := r.store.NewReset(u.ID, commandLineActor(), time.Now())
	return resetView{URL: api.ResetPage + token, Expires: wholeSecond(expires)}, err
}

func (r *local) TOTPOff(_ context.Context, user string) (userView, error) {
	return r.changeUser(user, func(id string) error { return r.store.TOTPOff(id, "", commandLineActor(), time.Now()) })
}

func (r *local) viewKey(k store.APIKey) keyView {
	v := keyView{ID: k.ID, User: k.Account, Name: k.Name, Test: k.Test, Last4: k.Last4, Created: wholeSecond(k.Created), Scopes: k.Scopes, Networks: []netip.Prefix{}}
	v.Networks = append(v.Networks, k.Networks...)
	if !k.Expires.IsZero() {
		v.Expires = &k.Expires
	}
	if u, err := r.store.User(k.Account); err == nil {
		v.User = u.Email
	}
	if !k.LastUsed.IsZero() {
		used := wholeSecond(k.LastUsed)
		v.LastUsed = &used
	}
	return v
}

func (r *local) CreateKey(_ context.Context, user string, n store.NewKey) (keyView, error) {
	u, err := r.user(user)
	if err != nil {
		return keyView{}, err
	}
	secret, k, err := r.store.CreateKey(u.ID, n, commandLineActor(), time.Now())
	v := r.viewKey(k)
	v.Secret = secret
	return v, err
}

func (r *local) Keys(_ context.Context, user string) (views []keyView, err error) {
	account := ""
	if user != "" {
		u, err := r.user(user)
		if err != nil {
			return nil, err
		}
		account = u.ID
	}
	keys, err := r.store.Keys(account)
	for _, k := range keys {
		views = append(views, r.viewKey(k))
	}
	return views, err
}

func (r *local) RevokeKey(_ context.Context, id string) error {
	err := r.store.RevokeKey("", id, commandLineActor(), time.Now())
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no key %s: key list shows their ids", console.Printable(id))
	}
	return err
}

func (r *local) Grant(_ context.Context, g grant) (creditsView, error) {
	u, err := r.user(g.User)
	if err != nil {
		return creditsView{}, err
	}
	c, err := r.store.GrantCredits(u.ID, store.CreditGrant{ID: g.ID, Credits: g.Amount, By: commandLineActor(), Note: g.Note}, time.Now())
	return creditsView(c), err
}

func (r *local) Balance(_ context.Context, user string) (creditsView, error) {
	u, err := r.user(user)
	if err != nil {
		return creditsView{}, err
	}
	c, err := r.store.Credits(u.ID)
	return creditsView(c), err
}

func (r *local) Ledger(_ context.Context, user string, before uint64, limit int) (views []ledgerEntryView, err error) {
	u, err := r.user(user)
	if err != nil {
		return nil, err
	}
	entries, err := r.store.Ledger(u.ID, before, limit)
	for _, e := range entries {
		views = append(views, ledgerEntryView{Number: e.Number, Kind: e.Kind, Credits: e.Credits, Amount: e.Amount, Cause: e.Cause, At: wholeSecond(e.At),
			Balance: e.Balance, Reserved: e.Reserved})
	}
	return views, err
}

func (r *local) Suppress(_ context.Context, kind, name, note string) (suppressionView, error) {
	s, err := api.ParseSuppression(kind, name)
	if err != nil {
		return suppressionView{}, err
	}
	s.Note, s.By, s.Since = note, commandLineActor(), wholeSecond(time.Now())
	return suppressionView(s), r.store.Suppress([]store.Suppression{s}, time.Now())
}

func (r *local) Suppressions(context.Context) (views []suppressionView, err error) {
	suppressions, err := r.store.Suppressions()
	for _, s := range suppressions {
		s.Since = wholeSecond(s.Since)
		views = append(views, suppressionView(s))
	}
	return views, err
}

func (r *local) Unsuppress(_ context.Context, kind, name string) error {
	s, err := api.ParseSuppression(kind, name)
	if err != nil {
		return err
	}
	err = r.store.Unsuppress(s.Kind, s.Name, commandLineActor(), time.Now())
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s %s is not on the list: suppress list shows what is", s.Kind, s.Name)
	}
	return err
}

// Erase erases an address with a coordinator that is not running; unfinished jobs continue without it at the next start. A coordinator's
// folder has no cache: its nodes erase the address when it runs.
func (r *local) Erase(ctx context.Context, address string) (receipt record.Receipt, err error) {
	a, err := engine.ParseTrimmed(address)
	if err != nil {
		return receipt, fmt.Errorf("address to erase: %w", err)
	}
	known, err := lists.Default()
	if err != nil {
		return receipt, err
	}
	c := coordinator.New(coordinator.Config{Store: r.store, FS: vfs.Default, Dir: r.dir, Table: engine.DefaultTable(), Lists: known})
	var caches erase.Caches
	if _, err := os.Stat(filepath.Join(r.dir, datafolder.CoordinatorFile)); errors.Is(err, fs.ErrNotExist) {
		nodeCache, err := cache.Open(cache.Config{FS: vfs.Default, Dir: filepath.Join(r.dir, "cache")})
		if err != nil {
			return receipt, adviseOnLock(r.dir, err)
		}
		defer nodeCache.Close()
		caches = LocalCache{nodeCache}
	} else if err != nil {
		return receipt, err
	}
	e, err := NewEraser(r.store, c, caches, nil).Erase(ctx, a, commandLineActor(), time.Now())
	return newReceipt(e), err
}

// newReceipt shows an erasure without the times at which job files are deleted: they depend on the server's flags.
func newReceipt(e store.Erasure) record.Receipt {
	return record.NewReceipt(e, nil)
}

func (r *local) Receipt(_ context.Context, id string) (record.Receipt, error) {
	e, err := r.store.Erasure(id)
	if errors.Is(err, store.ErrNotFound) {
		return record.Receipt{}, fmt.Errorf("there is no erasure %s: erase --list shows what there is", id)
	}
	return newReceipt(e), err
}

func (r *local) Receipts(context.Context) (receipts []record.Receipt, err error) {
	list, err := r.store.Erasures("", 100)
	for _, e := range list {
		receipts = append(receipts, newReceipt(e))
	}
	return receipts, err
}

// Backup writes the copy. Only its owner may read it: it holds the hashes of passwords and keys.
func (r *local) Backup(ctx context.Context, dir string, jobs bool) error {
	checkpoint := r.store.Checkpoint
	if jobs {
		checkpoint = func(dir string) error { return copyDataFolder(ctx, r.store, r.dir, dir) }
	}
	if err := wholefile.WriteFolder(dir, func(part string) error {
		if err := checkpoint(part); err != nil {
			return err
		}
		return os.Chmod(part, 0o700)
	}); err != nil {
		return err
	}
	return r.store.RecordBackup(commandLineActor(), time.Now())
}

// copyDataFolder makes a snapshot of the data folder on its own disk, and copies that to the target.
func copyDataFolder(ctx context.Context, s *store.Store, dir, to string) (err error) {
	snapshotDir := filepath.Join(dir, "scratch", "backup-at-rest") // a server removes a leftover at its start
	if err := os.RemoveAll(snapshotDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(snapshotDir)) }()
	c := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: dir, Table: engine.DefaultTable()})
	if err := c.Backup(ctx, snapshotDir, s.Checkpoint); err != nil {
		return err
	}
	return wholefile.CopyFolder(snapshotDir, to)
}
