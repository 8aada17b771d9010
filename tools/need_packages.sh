#!/usr/bin/env bash
# Installs the Debian packages of a purpose (build, test) when something is missing. As root or with sudo it installs; otherwise
# it prints the command and stops.
set -eu
packages=(cmake ninja-build pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libjpeg62-turbo-dev libpng-dev libwebp-dev libhwloc-dev
    libcurl4-openssl-dev python3 python3-pip)
foreign=()
if [ "${1:-build}" = test ]; then
    packages+=(libcmocka-dev clang gcc)
    # The cross build for AArch64 and what runs it.
    if [ "$(uname -m)" = x86_64 ]; then
        packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
        foreign=(libjansson-dev:arm64 libpcre2-dev:arm64 libutf8proc-dev:arm64 libjpeg62-turbo-dev:arm64 libpng-dev:arm64 libwebp-dev:arm64
            libhwloc-dev:arm64 libcmocka-dev:arm64)
    fi
fi
command -v cc >/dev/null || packages+=(gcc libc6-dev)
packages+=(${foreign[@]+"${foreign[@]}"})

pc_of() { # the pkg-config name of a foreign library
    case $1 in
        libjansson-*) echo jansson ;;
        libpcre2-*) echo libpcre2-8 ;;
        libutf8proc-*) echo libutf8proc ;;
        libjpeg62-turbo-*) echo libjpeg ;;
        libpng-*) echo libpng ;;
        libwebp-*) echo libwebp ;;
        libhwloc-*) echo hwloc ;;
        libcmocka-*) echo cmocka ;;
    esac
}

missing=()
for p in "${packages[@]}"; do
    case $p in # a tool from elsewhere does as well
        cmake | clang | gcc | python3) command -v "$p" >/dev/null && continue ;;
        ninja-build) command -v ninja >/dev/null && continue ;;
        pkg-config) command -v pkg-config >/dev/null && continue ;;
        python3-pip) python3 -m pip --version >/dev/null 2>&1 && continue ;;
        libcmocka-dev) pkg-config --exists cmocka 2>/dev/null && continue ;;
        libjansson-dev) pkg-config --exists jansson 2>/dev/null && continue ;;
        libpcre2-dev) pkg-config --exists libpcre2-8 2>/dev/null && continue ;;
        libutf8proc-dev) pkg-config --exists libutf8proc 2>/dev/null && continue ;;
        libjpeg62-turbo-dev) pkg-config --exists libjpeg 2>/dev/null && continue ;;
        libpng-dev) pkg-config --exists libpng 2>/dev/null && continue ;;
        libwebp-dev) pkg-config --exists libwebp libwebpdemux 2>/dev/null && continue ;;
        libhwloc-dev) pkg-config --exists hwloc 2>/dev/null && continue ;;
        qemu-user) command -v qemu-aarch64 >/dev/null && continue ;;
        gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc >/dev/null && continue ;;
        libc6-dev-arm64-cross) [ -e /usr/aarch64-linux-gnu/include/stdio.h ] && continue ;;
        *:arm64) [ -e "/usr/lib/aarch64-linux-gnu/pkgconfig/$(pc_of "$p").pc" ] && continue ;;
        libcurl4-openssl-dev) pkg-config --exists libcurl 2>/dev/null && continue ;;
    esac
    missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "These packages (Debian names) are missing; install them with your system's tools: ${missing[*]}" >&2
    exit 1
fi
case " ${missing[*]}" in
    *:arm64*) add_architecture="dpkg --add-architecture arm64" ;;
    *) add_architecture= ;;
esac
sudo=
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo=sudo
    else
        echo "Packages are missing. Install them as root, then run make again:" >&2
        echo "  ${add_architecture:+$add_architecture && }apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
[ -z "$add_architecture" ] || $sudo $add_architecture
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
