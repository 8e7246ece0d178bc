"""Packages of the distribution; everything else is in pyproject.toml.

The folders `models` and `svelte_src` are installed inside the package, where `rl_clarity.base.resources` finds them,
which pyproject.toml cannot express together with the discovery of packages.
"""

from setuptools import find_packages, setup

RESOURCES = {"rl_clarity._models": "models", "rl_clarity._svelte_src": "svelte_src"}

setup(
    packages=[*find_packages(include=["rl_clarity", "rl_clarity.*", "svelte3", "svelte3.*"]), *RESOURCES],
    package_dir=RESOURCES,
    package_data={
        "rl_clarity": ["py.typed"],
        "rl_clarity.pages": ["compiled/*", "onnxruntime/*"],
        "rl_clarity.viewer": ["*.js"],
        "svelte3": ["py.typed", "*.json", "scripts/*"],
        **{package: ["**/*"] for package in RESOURCES},
    },
    # Samples saved beside a model, tests, and tools installed beside the sources.
    exclude_package_data={
        "rl_clarity._models": ["rl-clarity/**"],
        "rl_clarity._svelte_src": ["node_modules/**", "**/*.test.js"],
    },
    include_package_data=False,
)
