#!/usr/bin/env bash
# Builds the images: `make images`.
#
#   deploy/images.sh files OUT VERSION PROGRAM...   what the images contain, from the programs in OUT/bin
#   deploy/images.sh build OUT VERSION PROGRAM...   the images, with docker or buildah, from the folder OUT
#
# IMAGE_PREFIX (localhost/agentbus-) and VERSION give the names. IMAGE_STORE is the folder in which buildah and podman keep the
# images; empty: their own.
set -euo pipefail

command=$1 out=$2 version=$3
shift 3
prefix=${IMAGE_PREFIX:-localhost/agentbus-}

# files writes root/ (for all images), sbom/ and data/.
files() {
	local root=$out/root certificates program
	mkdir -p "$root/etc/ssl/certs" "$root/usr/share" "$root/tmp" "$out/sbom" "$out/data"
	chmod 1777 "$root/tmp"
	for certificates in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem ""; do
		[ -z "$certificates" ] || [ ! -f "$certificates" ] || break
	done
	[ -n "$certificates" ] || { echo "images: no CA certificates; install ca-certificates" >&2; exit 1; }
	cp "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
	cp "$(go env GOROOT)/lib/time/zoneinfo.zip" "$root/usr/share/zoneinfo.zip"
	chmod 644 "$root/etc/ssl/certs/ca-certificates.crt" "$root/usr/share/zoneinfo.zip"
	echo 'agentbus:x:65532:65532:agentbus:/tmp:/sbin/nologin' >"$root/etc/passwd"
	echo 'agentbus:x:65532:' >"$root/etc/group"
	go build -o "$out/sbom.tool" ./cmd/sbom
	for program in "$@"; do
		"$out/sbom.tool" "$out/bin/$program" "$version" >"$out/sbom/$program.cdx.json"
	done
	rm "$out/sbom.tool"
}

# builder prints the program that builds images here.
builder() {
	if docker info >/dev/null 2>&1; then
		echo docker
	elif command -v buildah >/dev/null; then
		echo buildah
	else
		echo "images: no builder; start a Docker engine, or install buildah" >&2
		exit 1
	fi
}

build() {
	local with program revision
	with=$(builder)
	revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
	for program in "$@"; do
		local args=(-f deploy/Dockerfile --build-context "files=$out" --target "$program" -t "$prefix$program:$version"
			--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
		if [ "$with" = docker ]; then
			docker buildx build --quiet --load "${args[@]}" "$out" >/dev/null
		else
			# Nothing of the Dockerfile runs in a container here, so chroot is enough and needs no privileges.
			# shellcheck disable=SC2046
			buildah $(store) bud --quiet --isolation chroot "${args[@]}" "$out" >/dev/null
		fi
		echo "$prefix$program:$version"
	done
}

# store prints the flags of buildah for IMAGE_STORE.
store() {
	[ -z "${IMAGE_STORE:-}" ] || echo "--root $IMAGE_STORE/root --runroot $IMAGE_STORE/run --storage-driver vfs"
}

"$command" "$@"
