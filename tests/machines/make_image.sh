#!/bin/sh
# Make the file system, kernel and initramfs of the virtual machine in the folder $1; five minutes, 2 GB.
#
# Needs root and debootstrap (apt install debootstrap). DEBIAN_MIRROR says where packages come from.
set -eu
folder=$1
here=$(dirname "$0")
root=$folder/root
packages=$(paste -s -d , "$here/packages.txt")
debootstrap --variant=minbase --include="$packages" bookworm "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"

cat >"$root/etc/systemd/system/job.service" <<'UNIT'
[Unit]
Description=Run the job of the second disk, with its output on the virtio port, and power off
After=dbus.service systemd-logind.service systemd-user-sessions.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'exec >"$(echo /dev/vport*p1)" 2>&1; \
    mkdir /srv/checkout; tar -x -f /dev/vdb -C /srv/checkout; sh /srv/checkout/job; echo "[exit status $?]"'
ExecStopPost=systemctl poweroff --force --force

[Install]
WantedBy=multi-user.target
UNIT
ln -s ../job.service "$root/etc/systemd/system/multi-user.target.wants/job.service"
# Without an instruction set for it, each service costs the emulator a second.
for unit in getty.target modprobe@.service systemd-binfmt.service systemd-journal-flush.service \
    systemd-modules-load.service systemd-networkd.service systemd-pstore.service systemd-timesyncd.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
    systemd-update-utmp.service e2scrub_reap.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -sf /usr/lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
echo machine >"$root/etc/hostname"
chroot "$root" useradd --uid 1000 --create-home --shell /bin/bash user
echo 'user ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"

rm "$root"/usr/share/initramfs-tools/hooks/udev "$root"/usr/share/initramfs-tools/scripts/init-*/udev
printf '%s\n' virtio_pci virtio_blk virtio_console >"$root/etc/initramfs-tools/modules"
sed -i 's/^MODULES=.*/MODULES=list/' "$root/etc/initramfs-tools/initramfs.conf"
chroot "$root" update-initramfs -u
cp "$root"/boot/vmlinuz-* "$folder/vmlinuz"
cp "$root"/boot/initrd.img-* "$folder/initrd"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/locale
mke2fs -q -t ext4 -d "$root" "$folder/disk" 4G
rm -rf --one-file-system "$root"
