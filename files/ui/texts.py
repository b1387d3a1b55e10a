"""The words that the script of the files page says."""

from __future__ import annotations

from django.utils.translation import gettext as _

from files.words import WORDS


def texts() -> dict[str, str]:
    """Return them by key. ``%(name)s`` are places; ``…_one`` is said of exactly one."""
    codes = {f"code:{code}": str(text) for code, text in WORDS.items()}
    return {**codes, **_page(), **_acts(), **_uploads(), **_looks()}


def _page() -> dict[str, str]:
    return {
        "opening": _("Opening the files…"),
        "waiting": _("Waiting for the files to open: %(why)s"),
        "failed": _("The files could not be opened. %(why)s"),
        "closed": _("The files were closed because nobody used them for a while."),
        "lost": _("The connection was lost. Check the network and try again."),
        "loading": _("Loading…"),
        "name": _("Name"),
        "size": _("Size"),
        "kind:folder": _("Folder"),
        "kind:file": _("File"),
        "kind:link": _("Link"),
        "kind:other": _("Special file"),
        "leads": _("Link to %(target)s; links are never followed."),
        "shown": _("%(shown)s of %(total)s"),
        "items": _("%(n)s items"),
        "items_one": _("1 item"),
        "truncated": _("There is more in this folder than can be listed; search finds the rest."),
        "more": _("Show more"),
        "select": _("Select %(name)s"),
        "download": _("Download"),
    }


def _acts() -> dict[str, str]:
    return {
        "chosen": _("%(n)s selected"),
        "chosen_one": _("1 selected"),
        "folder_name": _("Name of the new folder"),
        "rename": _("Rename %(name)s"),
        "delete": _("Delete"),
        "delete_title": _("Delete %(n)s items?"),
        "delete_title_one": _("Delete “%(name)s”?"),
        "counting": _("Counting what will be deleted…"),
        "delete_lost": _("This will be deleted: %(files)s files, %(folders)s folders, %(size)s."),
        "delete_more": _("This will be deleted: more than %(files)s files, %(size)s."),
        "delete_undo": _("It can be brought back for %(minutes)s minutes."),
        "deleted": _("%(n)s items were deleted."),
        "deleted_one": _("“%(name)s” was deleted."),
        "undo": _("Undo"),
        "restored": _("It is back."),
        "moving": _("%(n)s items to move"),
        "moving_one": _("“%(name)s” is to be moved"),
        "copying": _("%(n)s items to copy"),
        "copying_one": _("“%(name)s” is to be copied"),
        "move_here": _("Move here"),
        "copy_here": _("Copy here"),
        "copied": _("Copied: %(files)s files, %(size)s."),
        "copy_progress": _("Copying: %(files)s files, %(size)s…"),
        "left_out": _("%(n)s things were left out: links and special files are not copied."),
        "moved": _("Moved."),
        "refused": _("“%(name)s”: %(why)s"),
        "cancel": _("Cancel"),
        "ok": _("OK"),
        "slash": _("A name can't hold “/”."),
    }


def _uploads() -> dict[str, str]:
    return {
        "uploading": _("Uploading %(done)s of %(all)s files · %(sent)s of %(size)s"),
        "rate": _("%(rate)s/s · %(left)s left"),
        "paused": _("Paused: %(done)s of %(all)s files · %(sent)s of %(size)s"),
        "pause": _("Pause"),
        "resume": _("Go on"),
        "uploaded": _("%(n)s files were uploaded."),
        "uploaded_one": _("“%(name)s” was uploaded."),
        "upload_failed": _("%(n)s files could not be uploaded."),
        "upload_failed_one": _("“%(name)s” could not be uploaded."),
        "unfinished": _(
            "%(n)s uploads were interrupted. Choose the same files again and they go on where"
            " they were: %(names)s"
        ),
        "unfinished_one": _(
            "An upload was interrupted. Choose the same file again and it goes on where it was:"
            " %(names)s"
        ),
        "choose_again": _("Choose files"),
        "forget": _("Give them up"),
        "conflict": _("“%(name)s” is there already"),
        "conflict_text": _("What should become of the file that is uploaded?"),
        "replace": _("Replace what is there"),
        "keep_both": _("Keep both"),
        "skip": _("Skip it"),
        "for_all": _("Do the same with all others"),
        "retrying": _("The connection was lost; trying again in %(n)s s."),
    }


def _looks() -> dict[str, str]:
    return {
        "preview": _("Preview of %(name)s"),
        "no_preview": _("There is no preview of this kind of file."),
        "cut": _("Only the beginning is shown."),
        "encoding": _("Read as %(encoding)s."),
        "too_large": _("This picture is too large to be shown here."),
        "broken_image": _("This picture can't be read."),
        "image": _("Picture: %(name)s"),
        "cells": _("%(n)s cells"),
        "cells_one": _("1 cell"),
        "in": _("In [%(n)s]"),
        "omitted": _("Output of the kind %(mime)s is not shown."),
        "usage": _("What takes room here"),
        "usage_sum": _("%(size)s in %(files)s files and %(folders)s folders"),
        "usage_free": _("%(size)s free"),
        "counting_usage": _("Adding up…"),
        "usage_partly": _("This took too long; what is shown is a part of it."),
        "found": _("%(n)s found"),
        "found_one": _("1 found"),
        "found_none": _("Nothing of that name was found below this folder."),
        "searching": _("Searching: %(n)s names looked at…"),
        "search_partly": _("There may be more: the search ended early. Say more of the name."),
        "stop": _("Stop"),
        "close": _("Close"),
        "back": _("Back to the files"),
    }
