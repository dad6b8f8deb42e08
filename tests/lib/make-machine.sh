#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes what the virtual machines of the tests boot, once, and prints its directory: make-machine.sh DIRECTORY
#
#   kernel     Debian's for clouds, whose disk and file system drivers are built in: it needs no initramfs
#   root.img   a minimal Debian of this machine's release, with the libraries that Sonde is linked with
#
# Both come from Debian's mirror; a complete directory needs no network. Nothing is installed.
set -euo pipefail

fail() {
  echo "make-machine.sh: $1" >&2
  exit 1
}

[ $# -eq 1 ] || fail 'usage: make-machine.sh DIRECTORY'
[ "$(id -u)" = 0 ] || fail 'needs root'
[ "$(dpkg --print-architecture)" = amd64 ] || fail 'virtual machines are made for amd64 alone'
mkdir -p "$1"
directory=$(readlink -f "$1")
release=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
# No udev: the kernel makes the few devices there are.
packages=systemd-sysv,libpam-systemd,dbus,polkitd,libglib2.0-bin,python3,apparmor
# What Sonde is linked with.
packages+=,libcap2,libdebuginfod1,libdw1,libglib2.0-0,libjson-glib-1.0-0,liblzma5,libpolkit-gobject-1-0,libprotobuf-c1,libseccomp2,libstdc++6,libzstd1,zlib1g
# Whose programs are profiled, beside python3.
packages+=,php-cli,ruby
recipe="$release $packages $(sha256sum "$0" | cut -c 1-64)"

if [ "$(cat "$directory/.complete" 2>/dev/null)" = "$recipe" ]; then
  echo "$directory"
  exit 0
fi

# In memory, since dpkg waits for the disk after each file; and in a namespace, where no mount stays.
if [ -z "${SONDE_MACHINE_INSIDE:-}" ]; then
  SONDE_MACHINE_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
fi
rm -f "$directory"/{.complete,kernel,root.img}
scratch=/mnt
mount -t tmpfs -o mode=0755 sonde-machine "$scratch"
log=$directory/make-machine.log
new=$scratch/root

if ! debootstrap --variant=minbase --include="$packages" "$release" "$new" >"$log" 2>&1; then
  cat "$new/debootstrap/debootstrap.log" >>"$log" || : # ended before it had one
  fail "debootstrap: $(tail -n 5 "$log") (more of it is in $log)"
fi

# What a kernel of clouds is called today, the package of that name without one says.
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
(cd "$scratch" && apt-get -q -o APT::Sandbox::User=root download "${kernel:?}" >>"$log" 2>&1) ||
  fail "no kernel: $(tail -n 1 "$log")"
dpkg-deb --fsys-tarfile "$scratch"/linux-image-*.deb | tar -x -C "$scratch" ./boot

: >"$new/etc/fstab"
: >"$new/etc/machine-id"
echo sonde-vm >"$new/etc/hostname"
rm -rf "$new"/etc/systemd/system/*.wants "$new"/var/cache/apt/* "$new"/var/lib/apt/lists/* "$new"/usr/share/{doc,locale,man}
mkdir -p "$new/var/log/journal"

# The second disk is a tar archive: what is to be tested.
cat >"$new/sbin/sonde-init" <<'INIT'
#!/bin/bash
mount -t devtmpfs devtmpfs /dev
tar -x --keep-directory-symlink -C / -f /dev/nvme0n2 && exec /lib/systemd/systemd
INIT
chmod 755 "$new/sbin/sonde-init"

mke2fs -q -t ext4 -O ^has_journal -d "$new" "$directory/root.img" 1G >>"$log" 2>&1 ||
  fail "mke2fs: $(tail -n 2 "$log")"
mv "$scratch"/boot/vmlinuz-* "$directory/kernel"
echo "$recipe" >"$directory/.complete"
echo "$directory"
