# demo.sh and test.sh source this from the top directory: it finds Go, and installs missing Debian packages.

PATH=$PATH:/usr/local/go/bin # missing in sudo's PATH
if ! command -v go >/dev/null; then
	echo "missing: Go (see https://go.dev/dl, or apt-get install golang); the version is in go.mod" >&2
	exit 1
fi

packages=

# need FILE PACKAGE... requests the packages unless FILE, a program's name or a path, exists.
need() {
	command -v "$1" >/dev/null || [ -e "$1" ] || packages="$packages $(shift; echo "$@")"
}

# install_needed installs the requested packages as root; otherwise it lists them in one line, and fails.
install_needed() {
	[ -n "$packages" ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "missing:$packages (as root: apt-get install$packages)" >&2
		return 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt_install() { apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $packages >/dev/null 2>&1; }
	apt_install || { apt-get update -q >/dev/null 2>&1; apt_install; } || {
		echo "missing:$packages (apt-get install$packages failed; run it to see why)" >&2
		return 1
	}
	packages=
}

# Go fetches modules by https.
[ -n "${SSL_CERT_FILE-}${SSL_CERT_DIR-}" ] || need /etc/ssl/certs/ca-certificates.crt ca-certificates
