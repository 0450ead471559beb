"""The sessions of this process: who owns one here, who listens to it, and the store watched for others."""
