"""What the environment says about each cloud: keys, region, endpoint, as that cloud's own tools take them.

    S3      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION,
            AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; else keys, region and endpoint of AWS_PROFILE in ~/.aws/credentials
            and ~/.aws/config; else web identity, container or instance
    Google  GOOGLE_APPLICATION_CREDENTIALS; else gcloud's login or the instance; STORAGE_EMULATOR_HOST
    Azure   AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or
            AZURE_STORAGE_SAS_TOKEN; else AZURE_CLIENT_ID and the like, or the instance

obstore reads most of them itself; here is what it does not know, or what decides between two. Each function returns
what to add, with the endpoint under "endpoint" if one was given.
"""

import configparser
from collections.abc import Mapping
from pathlib import Path

Environment = Mapping[str, str]

AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def of_s3(environment: Environment) -> dict[str, str]:
    """Return the settings for S3 that are not obstore's own to find."""
    profile = _aws_profile(environment)
    found = {}
    endpoint = (
        environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL")
        or environment.get("AWS_ENDPOINT")
        or profile.get("endpoint_url")
    )
    if endpoint:
        found["endpoint"] = endpoint
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or profile.get("region")
    if region:
        found["region"] = region
    if environment.get("AWS_ACCESS_KEY_ID"):
        keys = {key.lower(): environment[key] for key in AWS_KEYS if environment.get(key)}
    elif environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        keys = {}
    else:
        keys = {key: profile[key] for key in map(str.lower, AWS_KEYS) if key in profile}
    return found | keys


def of_google(environment: Environment) -> dict[str, str]:
    """Return the settings for Google Cloud Storage that obstore would not find."""
    emulator = environment.get("STORAGE_EMULATOR_HOST")
    if not emulator:
        return {}
    # obstore does not put without a token, and an emulator takes any.
    return {"endpoint": emulator if "://" in emulator else f"http://{emulator}", "bearer_token": "none"}


def of_azure(environment: Environment) -> dict[str, str]:
    """Return the settings for Azure that obstore would not find."""
    found = {}
    said = {
        "account_name": environment.get("AZURE_STORAGE_ACCOUNT"),
        "account_key": environment.get("AZURE_STORAGE_KEY"),
        "endpoint": environment.get("AZURE_STORAGE_ENDPOINT"),
    }
    found.update({key: value for key, value in said.items() if value})
    pairs = (part.partition("=") for part in environment.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
    string = {key.strip().lower(): value for key, _, value in pairs}
    words = {
        "accountname": "account_name",
        "accountkey": "account_key",
        "sharedaccesssignature": "sas_key",
        "blobendpoint": "endpoint",
    }
    found.update({words[key]: value for key, value in string.items() if key in words})
    return found


def _aws_profile(environment: Environment) -> dict[str, str]:
    """Return what the files of Amazon's tools say about the profile that is chosen."""
    name = environment.get("AWS_PROFILE") or "default"
    home = Path(environment.get("HOME", "~")).expanduser() / ".aws"
    config = environment.get("AWS_CONFIG_FILE") or home / "config"
    credentials = environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    found: dict[str, str] = {}
    for path, section in ((config, name if name == "default" else f"profile {name}"), (credentials, name)):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(path)
        except (OSError, configparser.Error):
            continue  # their tools would say what is wrong with it
        if parser.has_section(section):
            found.update(parser.items(section))
    return found
