#!/bin/sh
# Print the path of a Python that can run rl_clarity: $PYTHON if it is set, else the first that is suitable.
# 3.12 and 3.11 come first because Procgen has wheels for them (Linux x86-64) and not for 3.13.

lowest=11
highest=13

# Exit status 0: suitable. 3: suitable, but without virtual environments. Others: not suitable.
check='
import sys
if sys.version_info[0] != 3 or not LOWEST <= sys.version_info[1] <= HIGHEST or sys.maxsize < 2**32:
    sys.exit(2)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(3)
print(sys.executable)
'
check=$(printf '%s' "$check" | sed "s/LOWEST/$lowest/; s/HIGHEST/$highest/")

without_venv=
if [ -n "$PYTHON" ]; then
    set -- "$PYTHON"
else
    set -- python3.12 python3.11 python3.13 python3 python
fi
for python in "$@"; do
    path=$("$python" -c "$check" 2>/dev/null)
    case $? in
    0)
        echo "$path"
        exit 0
        ;;
    3) without_venv="${without_venv:+$without_venv, }$python" ;;
    esac
done

{
    if [ -n "$without_venv" ]; then
        echo "$without_venv cannot make virtual environments: on Debian and Ubuntu, install its package python3.X-venv."
    elif [ -n "$PYTHON" ]; then
        echo "PYTHON=$PYTHON is not a 64-bit Python 3.$lowest to 3.$highest."
    else
        echo "rl_clarity needs a 64-bit Python 3.$lowest to 3.$highest, and none is on the PATH (python3.12, python3, ...)."
    fi
    echo "To install one:"
    case $(uname -s) in
    Darwin) echo "  brew install python@3.12, or the installer from python.org" ;;
    *)
        echo "  Debian, Ubuntu:  apt-get install python3 python3-venv   (if that is 3.$lowest to 3.$highest)"
        echo "  Fedora:          dnf install python3.12"
        ;;
    esac
    echo "  any system:      uv python install 3.12, conda create -n py312 python=3.12, or pyenv install 3.12"
    echo "Then run make again; if it is not on the PATH: make PYTHON=/path/to/python3.12 ..."
} >&2
exit 1
