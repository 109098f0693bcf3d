//go:build linux

package packaged

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	cacheEnv  = "PROBITY_PACKAGED"          // folder with the Debian system, made by make packaged
	insideEnv = "PROBITY_PACKAGED_PACKAGES" // set in the namespaces: the folder of the packages

	startTimeout = time.Minute
)

// inNamespaces reports whether it runs in the namespaces. Outside it makes the packages, and runs this test again in
// new namespaces, to its end. The inner process is the first of its process namespace: when it ends, so do all
// processes that it started, all mounts and all interfaces.
func inNamespaces(t *testing.T) bool {
	if os.Getenv(insideEnv) != "" {
		return true
	}
	if os.Getenv(cacheEnv) == "" {
		t.Skipf("packages are installed only when told to: run make packaged as root (%s is not set)", cacheEnv)
	}
	if os.Getuid() != 0 {
		t.Skip("namespaces with a system of their own are for root to make: run make packaged as root")
	}
	packages := makePackages(t)
	self, err := os.Executable()
	require.NoError(t, err)
	inner := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	inner.Env = append(os.Environ(), insideEnv+"="+packages, "TMPDIR="+t.TempDir())
	inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	defer runtime.UnlockOSThread()
	require.NoError(t, inner.Run(), "the test, in its namespaces")
	return false
}

// makePackages makes the packages of two versions of the newest commit, in a copy of its history.
func makePackages(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	work := t.TempDir()
	copied, packages := filepath.Join(work, "copy"), filepath.Join(work, "packages")
	run(t, "", "git", "clone", "--quiet", "--shared", root, copied)
	for _, version := range []string{"v1.0.0", "v1.0.1"} {
		run(t, copied, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet",
			"--allow-empty", "-m", version)
		run(t, copied, "git", "tag", version)
		out := filepath.Join(work, version)
		run(t, filepath.Join(root, "tools", "release"), "go", "run", ".", "-root", copied, "-out", out, "-only",
			"linux/"+runtime.GOARCH)
		made, err := filepath.Glob(filepath.Join(out, "*.deb"))
		require.NoError(t, err)
		require.Len(t, made, 1)
		require.NoError(t, os.MkdirAll(packages, 0o755))
		require.NoError(t, os.Rename(made[0], filepath.Join(packages, version+".deb")))
	}
	return packages
}

// run runs a command to its end, and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	output, err := c.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), output)
	return string(output)
}

// debian is a Debian system in a folder.
type debian struct {
	root    string
	systemd int // its first process, if it has one
}

// newDebian mounts a layer in memory over the cached system, which holds the packages in /root.
func newDebian(t *testing.T) *debian {
	t.Helper()
	work := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", work, "tmpfs", 0, "mode=755"))
	d := &debian{root: filepath.Join(work, "root")}
	for _, sub := range []string{"root", "upper", "scratch"} {
		require.NoError(t, os.Mkdir(filepath.Join(work, sub), 0o755))
	}
	layers := "lowerdir=" + filepath.Join(os.Getenv(cacheEnv), "packaged") + ",upperdir=" +
		filepath.Join(work, "upper") + ",workdir=" + filepath.Join(work, "scratch")
	require.NoError(t, syscall.Mount("overlay", d.root, "overlay", 0, layers), "make packaged makes the system")
	t.Cleanup(func() {
		require.NoError(t, syscall.Unmount(d.root, syscall.MNT_DETACH))
		require.NoError(t, syscall.Unmount(work, syscall.MNT_DETACH))
	})
	require.NoError(t, os.CopyFS(filepath.Join(d.root, "root"), os.DirFS(os.Getenv(insideEnv))))
	return d
}

// boot starts systemd as the first process of namespaces of its own, and waits until it has started what belongs to the
// system. It ends with the test.
func (d *debian) boot(t *testing.T) {
	t.Helper()
	log := new(bytes.Buffer)
	c := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork",
		"--kill-child", "sh", "-ec", bootScript, "sh", d.root)
	c.Stdout, c.Stderr = log, log
	group, err := os.Open(newControlGroup(t))
	require.NoError(t, err)
	defer group.Close()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	c.Env = []string{"container=test", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Wait() // it was killed, as the test's context has ended
		if t.Failed() {
			t.Logf("systemd: %s", log)
		}
	})
	require.Eventually(t, func() bool {
		children, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/task/" +
			strconv.Itoa(c.Process.Pid) + "/children")
		if err != nil {
			return false
		}
		d.systemd, err = strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			return false
		}
		state, _ := d.command(t, "systemctl", "is-system-running").Output() // its exit status says the same
		return strings.TrimSpace(string(state)) == "running"
	}, startTimeout, 100*time.Millisecond, "the system is up")
}

// newControlGroup makes a control group, which the system sees as the whole of them, and removes it when the test ends.
func newControlGroup(t *testing.T) string {
	t.Helper()
	all := t.TempDir()
	require.NoError(t, syscall.Mount("cgroup2", all, "cgroup2", 0, ""))
	group, err := os.MkdirTemp(all, "probity-packaged-*")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0))
		require.Eventually(t, func() bool {
			state, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
			return err == nil && strings.Contains(string(state), "populated 0\n")
		}, startTimeout, 10*time.Millisecond, "its processes end")
		said, err := exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").CombinedOutput()
		require.NoError(t, err, "%s", said) // the test's context has ended, so that run would not run it
		require.NoError(t, syscall.Unmount(all, syscall.MNT_DETACH))
	})
	return group
}

// bootScript makes a folder the root of the mount namespace, and becomes systemd.
const bootScript = `
mount --make-rprivate /
cd "$1"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir -p old
pivot_root . old
umount -l /old
exec /lib/systemd/systemd --log-target=console --log-level=warning
`

// command is a command on the system: in the namespaces of its first process, or of this one if it has none.
func (d *debian) command(t *testing.T, args ...string) *exec.Cmd {
	if d.systemd == 0 {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: d.root}
		c.Dir = "/"
		return c
	}
	return exec.CommandContext(t.Context(), "nsenter", append([]string{"--target", strconv.Itoa(d.systemd), "--mount",
		"--pid", "--uts", "--ipc", "--cgroup", "--root", "--wdns=/", "--"}, args...)...)
}

// do runs a command on the system to its end, and returns what it printed.
func (d *debian) do(t *testing.T, args ...string) string {
	t.Helper()
	c := d.command(t, args...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	output, err := c.CombinedOutput()
	require.NoError(t, err, "%s: %s", strings.Join(args, " "), output)
	return string(output)
}
