#!/usr/bin/env bash
# Installs the Debian packages of a purpose (build, test) when something is missing. As root or with sudo it installs; otherwise
# it prints the command and stops.
set -eu
packages=(cmake ninja-build pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libcurl4-openssl-dev python3 python3-pip)
[ "${1:-build}" = test ] && packages+=(libcmocka-dev clang)
command -v cc >/dev/null || packages+=(gcc libc6-dev)

missing=()
for p in "${packages[@]}"; do
    case $p in # a tool from elsewhere does as well
        cmake | clang | python3) command -v "$p" >/dev/null && continue ;;
        ninja-build) command -v ninja >/dev/null && continue ;;
        pkg-config) command -v pkg-config >/dev/null && continue ;;
        python3-pip) python3 -m pip --version >/dev/null 2>&1 && continue ;;
        libcmocka-dev) pkg-config --exists cmocka 2>/dev/null && continue ;;
        libjansson-dev) pkg-config --exists jansson 2>/dev/null && continue ;;
        libpcre2-dev) pkg-config --exists libpcre2-8 2>/dev/null && continue ;;
        libutf8proc-dev) pkg-config --exists libutf8proc 2>/dev/null && continue ;;
        libcurl4-openssl-dev) pkg-config --exists libcurl 2>/dev/null && continue ;;
    esac
    missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "These packages (Debian names) are missing; install them with your system's tools: ${missing[*]}" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo=sudo
    else
        echo "Packages are missing. Install them as root, then run make again:" >&2
        echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
