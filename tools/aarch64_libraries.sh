#!/bin/sh
# Puts the libraries of vitrine for arm64 into a folder, for the preset aarch64: tools/aarch64_libraries.sh FOLDER.
# Downloads Debian's packages and unpacks them. Nothing is installed, and the system's package lists stay as they are.
set -eu
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0"; exit 2; }
mkdir -p "$1/packages" "$1/lists/partial"
cd "$1"
apt="apt-get -q -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oDir::State::Lists=$PWD/lists -oDir::Cache::pkgcache= -oDir::Cache::srcpkgcache="
$apt update
cd packages
# shellcheck disable=SC2046
$apt download libfmt-dev libfmt9 nlohmann-json3-dev libtomlplusplus-dev libpcre2-dev libpcre2-8-0 libutf8proc-dev \
  libutf8proc2 libyaml-dev libyaml-0-2 zlib1g-dev libgtest-dev libgmock-dev libcurl4-openssl-dev libssl-dev libcurl4 libssl3 libnghttp2-14 libidn2-0 \
  librtmp1 libssh2-1 libpsl5 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libcom-err2 libkrb5support0 libkeyutils1 \
  libldap-2.5-0 libsasl2-2 libzstd1 libbrotli1 zlib1g libunistring2 libgnutls30 libhogweed6 libnettle8 libgmp10 \
  libp11-kit0 libtasn1-6 libffi8
cd ..
for package in packages/*.deb; do dpkg-deb -x "$package" .; done
rm -r packages lists
